package account

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// denyPeriod adds a refusal where more does not fit a limit, beside what counts of a period at a
// time. A limit of 0 is none.
func denyPeriod[A ~int64](d *Denial, p *state.Period[A], limit, more A, wall int64, r Refusal) {
	spent := p.At(wall)
	if limit == 0 || more <= limit && spent <= limit-more {
		return
	}
	if more <= limit {
		r.TooMuch = ""
	}
	if spent > 0 {
		r.Wait = p.End - wall
	}
	d.Add(&r)
}

// mayFit reports whether more may fit a limit in time, because the period is over by then or open
// calls give back what they hold.
func mayFit[A ~int64](p *state.Period[A], limit, more, open A, wall, left int64) bool {
	return limit == 0 || p.End-wall <= left || p.Spent-open <= limit-more
}

// charge adds what a call charges to the period that lasts, which begins as it does in a zone.
func charge[A ~int64](p *state.Period[A], is Span, more A, wall int64) {
	change := follow(is, p, wall)
	change.Spent = more
	p.Add(change)
}

// settle is charge for what a call has used above its charge, or below it as it ends. To a period
// that is over nothing is given back; what is above counts to the present one.
func settle[A ~int64](p *state.Period[A], is Span, more A, admitted, wall int64) {
	change := follow(is, p, wall)
	if change.Spent = more; more > 0 || admitted >= change.Begin {
		p.Add(change)
	}
}

// setBack has a period that lies in the future, because the wall clock was set back, be the present
// one.
func setBack[A ~int64](p *state.Period[A], is Span, wall int64) {
	if p.Begin > wall {
		p.Begin, p.End = is.Begin, is.End
	}
}

// rezone has a period that lasts end where the present one does in another zone. One that would
// become too long begins there, too.
func rezone[A ~int64](p *state.Period[A], is Span, wall int64, longest uint64) {
	if !p.Holds(wall) {
		return
	}
	p.End = is.End
	if uint64(p.End)-uint64(p.Begin) > longest {
		p.Begin = is.Begin
	}
}

// follow returns a period that begins or the one that lasts, if that has begun. Behind one that is
// over it begins no sooner than that ended: in another zone they overlap, and would count as one.
func follow[A ~int64](is Span, was *state.Period[A], wall int64) state.Period[A] {
	switch {
	case was.Spent != 0 && was.Holds(wall):
		is = Span{Begin: was.Begin, End: was.End}
	case was.End <= wall:
		is.Begin = max(is.Begin, was.End)
	}
	return state.Period[A]{Begin: is.Begin, End: is.End}
}

func appendPeriod[A ~int64](to []byte, p *state.Period[A]) []byte {
	return wire.AppendUint(wire.AppendInt(wire.AppendInt(to, p.Begin), p.End), uint64(p.Spent))
}

func readPeriod[A ~int64](r *wire.Reader) (p state.Period[A]) {
	p.Begin, p.End, p.Spent = r.Int(), r.Int(), A(r.UpTo(math.MaxInt64))
	return p
}
