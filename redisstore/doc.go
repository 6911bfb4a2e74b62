// Package redisstore makes one quota of limiters on many machines, in a server of Redis or Valkey.
// Set Config.Store of each limiter to a Store of the same server and prefix, and they decide as one
// limiter would that did all of it.
//
// The server needs version 6.2 or later. It may be alone, be watched by Sentinel, or be a Cluster,
// in which all of a prefix lies in one slot. A prefix has four keys, and eleven that keep programs
// of earlier versions out. All begin with the prefix in braces, and end by themselves a week after
// the last limiter has gone; 32 days where calls have prices or a budget.
package redisstore
