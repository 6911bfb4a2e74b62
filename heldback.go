package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// dimension is what a limit of a provider is of.
type dimension int

const (
	ofRPM dimension = iota
	ofTPM
	ofITPM
	ofOTPM
	ofRPD
	ofTPD
	dimensions
)

// kind is which tokens the limit counts, where it counts any.
func (of dimension) kind() tokens.Kind {
	switch of {
	case ofITPM:
		return tokens.Input
	case ofOTPM:
		return tokens.Output
	}
	return tokens.All
}

// daily reports whether the limit is of the day.
func (of dimension) daily() bool { return of >= ofRPD }

// limitOf returns the limit of a dimension.
func (q *ModelQuota) limitOf(of dimension) *int {
	switch of {
	case ofRPM:
		return &q.MaxRPM
	case ofTPM:
		return &q.MaxTPM
	case ofITPM:
		return &q.MaxITPM
	case ofOTPM:
		return &q.MaxOTPM
	case ofRPD:
		return &q.MaxRPD
	default:
		return &q.MaxTPD
	}
}

// usedOf returns what is used of a dimension, by a window in order.
func (w *window) usedOf(of dimension) int {
	switch of {
	case ofRPM:
		return w.requests.Len()
	case ofRPD:
		return w.dayCount()
	case ofTPD:
		return w.dayTokens()
	default:
		return w.sums.Total().Of(of.kind())
	}
}

// heldBack is what a provider says that is used of a model beyond what was charged here.
// It lies beside State, by the name under which the model is counted: it must outlast
// windows, which are made anew and pruned, and a model need not have state for it.
type heldBack [dimensions]withheld

// withheld is how much of one dimension is held back, and until when it is, that instant
// excluded. The zero value holds nothing back.
type withheld struct {
	amount int
	until  int64 // instant; of the day in UnixNano
	sentAt int64 // instant at which the call was sent whose answer said so
}

// sentSlack is how much earlier than another a call may have been sent whose answer is
// still taken for the later word: it is not known in which order two calls that were
// sent at about the same time arrived.
const sentSlack = int64(250 * time.Millisecond)

// take puts an observation in the place of the one in force, or has it raise that. It
// reports whether a request may pass sooner now.
func (h *withheld) take(is withheld) (eased bool) {
	was := *h
	if was.amount > 0 && is.sentAt+sentSlack < was.sentAt {
		if is.amount <= was.amount {
			return false
		}
		is.until, is.sentAt = max(is.until, was.until), was.sentAt
	}
	if *h = is; is.amount == 0 {
		*h = withheld{}
	}
	return is.amount < was.amount || is.until < was.until
}

// expire drops what is not held back any more, and reports whether anything is.
func (h *heldBack) expire(instant, wall int64) (holds bool) {
	for of := range dimensions {
		now := instant
		if of.daily() {
			now = wall
		}
		if w := &h[of]; w.amount > 0 && w.until <= now {
			*w = withheld{}
		}
		holds = holds || h[of].amount > 0
	}
	return holds
}

// join adds what is held back of a model that turned out to be the same: of each
// dimension the more.
func (h *heldBack) join(other *heldBack) {
	for of := range dimensions {
		if other[of].amount > h[of].amount {
			h[of] = other[of]
		}
	}
}

// heldLocked returns what is held back of a model now; nil for nothing.
func (rl *RateLimiter) heldLocked(name string, instant, wall int64) *heldBack {
	h := rl.held[name]
	if h != nil && !h.expire(instant, wall) {
		delete(rl.held, name)
		return nil
	}
	return h
}

// placeToHoldLocked reports whether there is place to hold back something of one more
// model. Those with a quota of their own always have one.
func (rl *RateLimiter) placeToHoldLocked(name string, instant int64) bool {
	if _, own := rl.Quotas[name]; own || len(rl.held) < rl.mostModels() {
		return true
	}
	rl.sweepHeldBackLocked(instant)
	return len(rl.held) < rl.mostModels()
}

// sweepHeldBackLocked drops what is not held back any more, of all models.
func (rl *RateLimiter) sweepHeldBackLocked(instant int64) {
	for name := range rl.held {
		rl.heldLocked(name, instant, rl.clock.UnixNano(instant))
	}
}

// fits reports whether more fits a limit of which some is used and some held back.
func (r *reading) fits(of dimension, used, more, limit int) bool {
	return fits(used, more, limit) && (r.held == nil || limit == 0 || r.held[of].amount <= limit-more-used)
}

// leaves reports whether a request that fits what is used fits also beside what is
// held back.
func (r *reading) leaves(q *ModelQuota, c *cost) bool {
	for of := range dimensions {
		if !r.fits(of, r.usedOf(of), c.of(of), *q.limitOf(of)) {
			return false
		}
	}
	return true
}
