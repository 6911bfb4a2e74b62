// Package pace keeps the leaky buckets that spread calls inside the minute, for the
// ModelQuota.Burst of the root package, which is its only user. The charge of a call is
// an estimate until the call has ended, so the account of a bucket is a Backlog, whose
// charges can be corrected, moved and taken back.
package pace
