package limit

// Set is limiters that hold for one request together: it takes from all of them or from
// none. Make it with All: the zero Set panics. It is a Holder, and safe for concurrent use.
//
// A Decision is OK if all of them admit the request; Remaining is the smallest of
// theirs, RetryAfter and ResetAfter are the largest, and it is Never if it is for one.
// RetryAfter is exact, and 0 where one of them waits for the end of a Hold.
//
// A Set decides one request at a time. Where its members are charged elsewhere as well,
// directly or through other Sets, a member may be taken away between the moment in which
// all admitted a request and its charge; the request is refused then, and one that came
// elsewhere in that moment may have been refused by a hold that was given back.
//
// A Limiter that is not a Holder, such as one's own, is asked last, and only when all
// Holders admit the request: while one of those refuses, its RetryAfter and its Never are
// not in the Decision. TakeAt with one such Limiter takes from all or from none. With
// several, the first ones stay charged where a later one refuses; and HoldAt charges each
// of them at once, which Release does not give back. Such a Limiter must not use the Set
// that asks it.
//
// Of a Queue a Set takes slots, and does not wait for them: Wait of the Set returns when
// they are taken. Who wants the gaps takes from the others first, and then calls Wait of
// the Queue itself.
//
// Wait and WaitN learn at once of the end of a Hold, whoever had it. Only in a Set that
// has a Limiter of one's own, they try again every 100 ms where its RetryAfter is 0.
type Set struct {
	together
}

// All returns the Set of the limiters. One that is nil is left out, one that is there
// twice is taken once, and the members of a Set, and the levels of a Tree, stand for
// themselves. A Set of none admits everything.
func All(limiters ...Limiter) *Set {
	s := &Set{}
	s.joint = newJoint(new(turn), limiters)
	s.init(s)
	return s
}
