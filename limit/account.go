package limit

import "time"

// account is the state of a bucket: the instant at which it will be empty, its TAT, and the
// open holds beside that. The limiter's lock guards it.
//
// A charge at now turns the TAT x into max(x, now) + cost. Functions of the form max(x +
// add, floor) are closed under composition. A hold that ends late belongs between the
// charges before it and the charges after it, so every open hold carries the composition of
// all charges since it was made. That makes the end of a hold exact in any order.
type account struct {
	bucket
	line  timeline
	tat   mark // of all charges
	first mark // of the charges before the oldest open hold
	holds holds[charges]
}

// charges is the function max(x + add, floor) of the TAT x. The zero value is no charge.
type charges struct {
	add, floor mark
	some       bool
}

// then returns the charges c followed by the charges d.
func (b *bucket) then(c, d charges) charges {
	switch {
	case !c.some:
		return d
	case !d.some:
		return c
	}
	return charges{b.plus(c.add, d.add), later(b.plus(c.floor, d.add), d.floor), true}
}

// after returns the TAT x after the charges c.
func (b *bucket) after(x mark, c charges) mark {
	if !c.some {
		return x
	}
	return later(b.plus(x, c.add), c.floor)
}

// newAccount returns the account of a bucket that is empty, and always was.
func newAccount(b bucket) account { return account{bucket: b, tat: lapsed, first: lapsed} }

// reachLocked begins the line, or begins it anew, if now, which lies at instant, is not on
// it. It returns where now lies then.
func (a *account) reachLocked(now time.Time, instant int64) int64 {
	if !a.line.ends(instant) {
		return instant
	}
	if a.line.begun {
		a.moveLocked(now.Sub(a.line.origin))
	}
	a.line = timeline{now, true}
	return 0
}

func (a *account) moveLocked(shift time.Duration) {
	a.tat.ns = moved(a.tat.ns, shift)
	a.first.ns = moved(a.first.ns, shift)
	for i := range a.holds.open {
		o := &a.holds.open[i]
		o.at = moved(o.at, shift)
		o.data.floor.ns = moved(o.data.floor.ns, shift)
		o.data.add.ns = min(o.data.add.ns, far) // more has lapsed; sums must not overflow
	}
}

// momentLocked returns the instant as which now counts, and how much earlier now is. An
// instant before that of the latest open hold counts as that one: a charge before it would
// have drained when the clock is back, and the TAT does not include the hold.
func (a *account) momentLocked(now time.Time) (instant int64, early time.Duration) {
	instant, early = a.line.at(now)
	if open := a.holds.open; len(open) > 0 {
		if latest := open[len(open)-1].at; instant < latest {
			return latest, sum(early, time.Duration(latest-instant))
		}
	}
	return instant, early
}

func (a *account) peekLocked(now time.Time, n int) Decision {
	instant, early := a.momentLocked(now)
	d, _ := a.decide(instant, a.tat, a.holds.units, n)
	return d.asOf(early)
}

func (a *account) takeLocked(now time.Time, n int) (d Decision) {
	instant, early := a.momentLocked(now)
	d, next := a.decide(instant, a.tat, a.holds.units, n)
	if d.OK && n > 0 {
		next.ns -= instant
		instant = a.reachLocked(now, instant)
		next.ns += instant
		a.tat = next
		if open := a.holds.open; len(open) > 0 {
			since := &open[len(open)-1].data
			*since = a.then(*since, a.chargeOf(instant, n))
		}
	}
	if early > 0 {
		return d.asOf(early)
	}
	return d
}

// allowNowLocked takes one unit at time.Now, and returns where that lies on the line. It
// reads the monotonic clock alone, which takes two thirds of the time of time.Now.
func (a *account) allowNowLocked() (instant int64, ok bool) {
	if a.line.begun {
		instant = int64(time.Since(a.line.origin))
	}
	if !a.line.begun || len(a.holds.open) > 0 || instant >= far || instant <= -far {
		now := time.Now()
		ok = a.takeLocked(now, 1).OK
		return int64(now.Sub(a.line.origin)), ok
	}
	now := mark{ns: instant}
	next := a.plus(later(a.tat, now), a.unit)
	if a.plus(now, a.brim).before(next) {
		return instant, false
	}
	a.tat = next
	return instant, true
}

// allowLocked takes one unit at now. It says of the Decision whether it is OK, and its
// ResetAfter, and takes less time than that.
func (a *account) allowLocked(now time.Time) (ok bool, reset time.Duration) {
	instant := int64(now.Sub(a.line.origin))
	if !a.line.begun || len(a.holds.open) > 0 || instant >= far || instant <= -far {
		d := a.takeLocked(now, 1)
		return d.OK, d.ResetAfter
	}
	at := mark{ns: instant}
	filled := later(a.tat, at)
	next := a.plus(filled, a.unit)
	if a.plus(at, a.brim).before(next) {
		return false, a.minus(filled, at).up()
	}
	a.tat = next
	return true, a.minus(next, at).up()
}

// chargeOf returns one charge of n units.
func (b *bucket) chargeOf(instant int64, n int) charges {
	cost := b.cost(n)
	return charges{cost, b.plus(mark{ns: instant}, cost), true}
}

// holdLocked returns the number of the hold, 0 if there is none.
func (a *account) holdLocked(now time.Time, n int) (id uint64, d Decision) {
	instant, early := a.momentLocked(now)
	d, _ = a.decide(instant, a.tat, a.holds.units, n)
	if !d.OK || n == 0 {
		return 0, d.asOf(early)
	}
	instant = a.reachLocked(now, instant)
	if len(a.holds.open) == 0 {
		a.first = a.tat
	}
	id = a.holds.add(instant, n, charges{})
	d, _ = a.decide(instant, a.tat, a.holds.units, 0)
	return id, d.asOf(early)
}

// endLocked ends a hold, and reports whether it was open.
func (a *account) endLocked(id uint64, commit bool) bool {
	i, ok := a.holds.find(id)
	if !ok {
		return false
	}
	o := a.holds.remove(i)
	since := o.data
	if commit {
		since = a.then(a.chargeOf(o.at, o.n), since)
	}
	if i == 0 {
		a.first = a.after(a.first, since)
	} else {
		before := &a.holds.open[i-1].data
		*before = a.then(*before, since)
	}
	if commit {
		a.tat = a.first
		for i := range a.holds.open {
			a.tat = a.after(a.tat, a.holds.open[i].data)
		}
	}
	return true
}
