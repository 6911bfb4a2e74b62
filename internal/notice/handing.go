package notice

// Handing is how an Outlet hands an event out to several handlers.
type Handing[E any] struct {
	Handlers int
	// Hand hands an event to a handler, by its number. It may panic, or end the goroutine.
	Hand     func(handler int, e E)
	Panicked func(e E, p any)
	Handed   func(e E) // all handlers are through
	// Left is told that a handler has ended the goroutine of Now, which hands out no more.
	Left func(e E)
}

// Now hands out an event that was begun, on the goroutine of the caller.
func (o *Outlet[E]) Now(e E) {
	if !o.IsOver() {
		for i := 0; i < o.by.Handlers; {
			i = o.handFrom(i, e)
		}
		o.by.Handed(e)
	}
	o.End()
}

// handFrom hands an event to the handlers from i on, up to one that panics, and returns the number
// of the next. One call for all of them takes a quarter less than one for each.
func (o *Outlet[E]) handFrom(i int, e E) (following int) {
	following = i
	defer func() {
		switch p := recover(); {
		case p != nil:
			o.by.Panicked(e, p)
		case following < o.by.Handlers: // the goroutine ends
			o.by.Left(e)
			o.End()
		}
		following++
	}()
	for ; following < o.by.Handlers; following++ {
		o.by.Hand(following, e)
	}
	return following
}

// handQueued hands out an event of the queue. Where a handler ends the goroutine, the others do not
// get it.
func (o *Outlet[E]) handQueued(e E) {
	defer o.End()
	if o.IsOver() {
		return
	}
	for i := range o.by.Handlers {
		o.handOne(i, e)
	}
	o.by.Handed(e)
}

func (o *Outlet[E]) handOne(i int, e E) {
	defer func() {
		if p := recover(); p != nil {
			o.by.Panicked(e, p)
		}
	}()
	o.by.Hand(i, e)
}
