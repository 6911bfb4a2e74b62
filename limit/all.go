package limit

// Set is several limiters for one request: it takes from all of them or from none. Make it
// with All: the zero Set panics. It is a Holder, and safe for concurrent use.
//
// A Decision is OK if all members admit the request. Remaining is their smallest,
// RetryAfter and ResetAfter are their largest, and Never is set if it is for one member.
// RetryAfter is exact, and 0 if a member waits for the end of a Hold.
//
// A Set decides one request at a time. If a member is also charged elsewhere, directly or
// through another Set, its units may be taken between the admission by all members and the
// charge. The request is then refused, and a request elsewhere may have been refused in
// that moment because of a hold that was given back.
//
// A member that is not a Holder, such as a Limiter of the caller, is asked last, and only
// if all Holders admit the request: while a Holder refuses, the Decision has neither
// RetryAfter nor Never of that member. With one such member TakeAt takes from all or from
// none. With several, the first ones stay charged if a later one refuses; and HoldAt
// charges each of them at once, which Cancel does not give back. Such a member must not
// use the Set that asks it.
//
// From a Queue a Set takes slots without waiting for them: Wait of the Set returns when
// they are taken. To keep the gaps, take from the other limiters first, and then call Wait
// of the Queue itself.
//
// Wait and WaitN learn of the end of any Hold at once. Only in a Set with a Limiter of the
// caller they try again every 100 ms while RetryAfter is 0.
type Set struct{ joint }

// All returns the Set of the limiters. Nil limiters are left out, a limiter that is given
// twice counts once, and a Set or a Tree is replaced by its members. A Set without members
// admits everything.
func All(limiters ...Limiter) *Set {
	s := &Set{}
	s.begin(new(jointLock), limiters)
	return s
}
