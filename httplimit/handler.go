package httplimit

import (
	"fmt"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Handler returns a handler that passes requests to next as far as the limits of their keys allow,
// and refuses the others. It panics if next or a required field of options is nil. It is safe for
// concurrent use; options must not be changed afterwards.
func Handler(next http.Handler, options Options) http.Handler {
	if next == nil {
		panic("httplimit: next is nil")
	}
	if l, isKeyed := options.Limiter.(*keyed.Limiter); options.Limiter == nil || isKeyed && l == nil {
		options.Limiter = newLimiter()
	}
	options.validate()
	h := &handler{Options: options, next: next}
	h.one, _ = h.Limiter.(taker)
	if h.Slots == nil {
		h.Slots = NewSlots()
	}
	if h.Refuse == nil {
		h.Refuse = refuse
	}
	return h
}

type handler struct {
	Options
	next http.Handler
	one  taker // nil if the Limiter is none
}

// ServeHTTP decides about a request, and serves or refuses it.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := Decision{Request: r, Key: h.Key(r)}
	slot := h.takeSlot(&d)
	defer func() {
		if slot {
			h.Slots.give(d.Key)
		}
	}()
	c := h.charge(&d)
	if c != nil {
		defer c.commitEstimates() // if a function of Options panics
	}
	h.conclude(&d)
	if slot && !d.OK {
		h.Slots.give(d.Key)
		slot = false
	}
	if h.OnDecision != nil {
		h.OnDecision(d)
	}
	h.setFields(w.Header(), &d)
	switch {
	case !d.OK && !d.Shadow:
		h.Refuse(w, r, d)
	case c != nil:
		c.serve(h.next, w, h.Settle)
	default:
		h.next.ServeHTTP(w, r)
	}
}

// takeSlot takes the place of a request among those of its key that are served. It reports
// whether it has taken one, and sets the Reason if it could not.
func (h *handler) takeSlot(d *Decision) bool {
	if d.Key == "" {
		d.Reason = NoKey
		return false
	}
	if h.InFlight == nil {
		return false
	}
	most := h.InFlight(d.Key)
	if most <= 0 {
		return false
	}
	taken, ok := h.Slots.take(d.Key, most)
	d.InFlight, d.MaxInFlight = taken, most
	if !ok {
		d.Reason = OverInFlight
	}
	return ok
}

// charge charges or holds the limits of a request, all or none. It returns the call if some are
// held.
func (h *handler) charge(d *Decision) *call {
	if d.Reason != "" || h.Limits == nil {
		return nil
	}
	limits := h.Limits(d.Key)
	if len(limits) == 0 {
		return nil
	}
	d.Limits = make([]keyed.Request, len(limits))
	holds := false
	for i, l := range limits {
		if l.Key == "" {
			l.Key = d.Key
		}
		l.Cost = h.cost(d.Request, l)
		d.Limits[i] = l
		holds = holds || h.settles(l)
	}
	if holds {
		return h.hold(d)
	}
	h.take(d)
	return nil
}

// take charges the limits of a request.
func (h *handler) take(d *Decision) {
	ctx := d.Request.Context()
	if h.one == nil || len(d.Limits) > 1 {
		d.Decisions, d.Err = h.Limiter.TakeAll(ctx, d.Limits...)
		d.count(len(d.Decisions))
		return
	}
	one, err := h.one.Take(ctx, d.Limits[0])
	if d.Err = err; err == nil {
		d.Decisions = []limit.Decision{one}
	}
}

// cost returns the Cost of a limit for a request, before that is served.
func (h *handler) cost(r *http.Request, l keyed.Request) int {
	switch {
	case h.Cost != nil:
		if units := h.Cost(r, l); units > 0 {
			return units
		}
		return keyed.Free
	case l.Cost == 0:
		return 1
	}
	return l.Cost
}

// settles reports whether the cost of a limit is known only when the response has ended.
func (h *handler) settles(l keyed.Request) bool {
	_, found := h.Settle[l.Namespace]
	return found
}

// hold holds the limits of a request, and commits those whose cost is known already. Without room
// it returns nil.
func (h *handler) hold(d *Decision) *call {
	var holds []keyed.Hold
	holds, d.Decisions, d.Err = h.Limiter.(Holder).HoldAll(d.Request.Context(), d.Limits...)
	if d.count(len(d.Decisions)); d.Err == nil && fits(d.Decisions) {
		d.count(len(holds))
	}
	if d.Err != nil || !fits(d.Decisions) {
		return nil
	}
	c := &call{request: d.Request}
	c.held = c.few[:0]
	for i, l := range d.Limits {
		if h.settles(l) {
			c.held = append(c.held, held{hold: holds[i], limit: l})
		} else {
			holds[i].Commit(l.Cost)
		}
	}
	return c
}

// count makes it an error if a Limiter has answered n of the limits: none of them passes then.
func (d *Decision) count(n int) {
	if d.Err == nil && n != len(d.Limits) {
		d.Err = fmt.Errorf("decide: the limiter has answered %d of %d limits", n, len(d.Limits))
	}
	if d.Err != nil {
		d.Decisions = nil
	}
}

// fits reports whether all limits have room.
func fits(decisions []limit.Decision) bool { return strictest(decisions) < 0 }

// leastWait is the RetryAfter of a request that has to wait for the end of others, which nobody
// can tell.
const leastWait = time.Second

// conclude sets the fields of a decision that follow from the others.
func (h *handler) conclude(d *Decision) {
	switch {
	case d.Err != nil:
		d.Reason = Failed
	case d.Reason == "" && !fits(d.Decisions):
		d.Reason = OverLimit
	}
	switch d.Reason {
	case "":
		d.OK = true
		return
	case NoKey:
		d.Status = http.StatusUnauthorized
	case Failed:
		d.Status = http.StatusInternalServerError
	default:
		d.Status, d.RetryAfter = http.StatusTooManyRequests, retryAfter(d)
	}
	d.Shadow = h.Shadow
}

// retryAfter returns how long a request has to wait that has found no room.
func retryAfter(d *Decision) time.Duration {
	if i := strictest(d.Decisions); i >= 0 {
		return resetOf(d.Decisions[i])
	}
	return leastWait
}
