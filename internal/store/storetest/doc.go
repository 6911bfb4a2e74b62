// Package storetest has the suite that every store.Log passes. Each of its tests is a rule of
// package store; nothing else may be relied upon.
package storetest
