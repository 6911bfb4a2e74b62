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

// charges is the function max(x + add, floor) of the TAT x.
type charges struct {
	add, floor mark
}

// noCharges leaves every TAT as it is.
var noCharges = charges{floor: lapsed}

// then returns the charges c followed by the charges d.
func (b *bucket) then(c, d charges) charges {
	return charges{b.plus(c.add, d.add), later(b.plus(c.floor, d.add), d.floor)}
}

// after returns the TAT x after the charges c.
func (b *bucket) after(x mark, c charges) mark { return later(b.plus(x, c.add), c.floor) }

// newAccount returns the account of a bucket that is empty, and always was.
func newAccount(b bucket) account { return account{bucket: b, tat: lapsed, first: lapsed} }

// reachLocked makes now, which lies at instant, one of the line, and returns how far that
// moves all instants back.
func (a *account) reachLocked(now time.Time, instant int64) (shift int64) {
	if shift = a.line.reach(now, instant); shift == 0 {
		return 0
	}
	a.tat.ns = moved(a.tat.ns, shift)
	a.first.ns = moved(a.first.ns, shift)
	for i := range a.holds.open {
		o := &a.holds.open[i]
		o.at = moved(o.at, shift)
		o.data.floor.ns = moved(o.data.floor.ns, shift)
		o.data.add.ns = min(o.data.add.ns, far) // more has lapsed; sums must not overflow
	}
	return shift
}

// momentLocked returns the instant as which now counts, and how much earlier now is. An
// instant before that of the latest open hold counts as that one: a charge before it would
// have drained when the clock is back, and the TAT does not include the hold.
func (a *account) momentLocked(now time.Time) (instant int64, early time.Duration) {
	if open := a.holds.open; len(open) > 0 {
		return a.line.from(now, open[len(open)-1].at)
	}
	return a.line.at(now)
}

// decideLocked decides on n units at now. It returns the number of the hold, 0 if there is none.
func (a *account) decideLocked(now time.Time, n int, is purpose) (id uint64, d Decision) {
	instant, early := a.momentLocked(now)
	d, next := a.decide(instant, a.tat, a.holds.units, n)
	if is != peek && d.OK && n > 0 {
		shift := a.reachLocked(now, instant)
		instant -= shift
		next.ns -= shift
		if open := a.holds.open; is == hold {
			if len(open) == 0 {
				a.first = a.tat
			}
			id = a.holds.add(instant, n, noCharges)
			d, _ = a.decide(instant, a.tat, a.holds.units, 0)
		} else {
			a.tat = next
			if len(open) > 0 {
				since := &open[len(open)-1].data
				*since = a.then(*since, a.chargeOf(instant, n))
			}
		}
	}
	if early > 0 {
		return id, d.asOf(early)
	}
	return id, d
}

// allowLocked takes one unit at now or, if that is nil, at time.Now, of which it reads the
// monotonic clock alone, in two thirds of the time. It returns where that lies on the line, and of
// the Decision, in less time than that takes, whether it is OK, and its ResetAfter.
func (a *account) allowLocked(now *time.Time) (instant int64, ok bool, reset time.Duration) {
	switch {
	case now != nil:
		instant = int64(now.Sub(a.line.origin))
	case a.line.begun:
		instant = int64(time.Since(a.line.origin))
	}
	if !a.line.begun || len(a.holds.open) > 0 || instant >= far || instant <= -far {
		if now == nil {
			now = new(time.Now())
		}
		_, d := a.decideLocked(*now, 1, charge)
		return int64(now.Sub(a.line.origin)), d.OK, d.ResetAfter
	}
	at := mark{ns: instant}
	filled := later(a.tat, at)
	next := a.plus(filled, a.unit)
	if a.plus(at, a.brim).before(next) {
		return instant, false, a.minus(filled, at).up()
	}
	a.tat = next
	return instant, true, a.minus(next, at).up()
}

// chargeOf returns one charge of n units.
func (b *bucket) chargeOf(instant int64, n int) charges {
	cost := b.cost(n)
	return charges{cost, b.plus(mark{ns: instant}, cost)}
}

// endLocked ends a hold, and reports whether it was open.
func (a *account) endLocked(id uint64, commit bool) bool {
	o, i, ok := a.holds.remove(id)
	if !ok {
		return false
	}
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
