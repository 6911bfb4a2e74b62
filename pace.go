package ratelimit

import (
	"math/bits"
	"time"

	backlog "dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// pacing is what of a quota spreads the calls inside the minute.
type pacing struct {
	limits [paced]int // of the minute, by dimension; 0 for none
	burst  time.Duration
}

// paced is how many dimensions there are that can be paced: those of the minute.
const paced = ofOTPM + 1

// paces reports whether the quota spreads anything. A burst of a minute is the minute
// itself.
func (q *ModelQuota) paces() bool {
	return q.Burst > 0 && int64(q.Burst) < minute && q.limitsMinute()
}

func (q *ModelQuota) pacing() (p pacing) {
	return pacing{[paced]int{ofRPM: q.MaxRPM, ofTPM: q.MaxTPM, ofITPM: q.MaxITPM, ofOTPM: q.MaxOTPM}, q.Burst}
}

// pace is the bucket of each dimension of a window: it holds what the calls have charged
// and drains at the rate of the quota. It follows every change of the window, so that an
// estimate that was too high is given back, and a call that arrives late counts when it
// arrives.
//
// Everything is measured in the time that it takes to drain: the whole quota is a
// minute, and the burst is itself. What the window has of a bucket is never more than a
// minute, so a bucket that is idle for one is empty, as the window then is.
type pace struct {
	pacing
	lanes [paced]lane

	// So many of the oldest requests and tokens were charged under another quota. Their
	// price was another one; changes of them come too late for the buckets.
	sealedRequests, sealedTokens int
}

// bottomless is a depth that no bucket is filled to.
const bottomless = time.Duration(1 << 60)

// lane is the bucket of one dimension.
type lane struct {
	backlog.Backlog
	// carry is what rounding left of the last price, in nanoseconds divided by the
	// limit. So the prices of charges that follow each other while the bucket is not
	// empty sum up to the price of their sum, rounded up.
	carry uint64
}

// price is how long n of a dimension take to drain, at most a minute, and the carry after
// that.
func (p *pace) price(of dimension, n int, carry uint64) (price time.Duration, rest uint64) {
	most := p.limits[of]
	if n >= most {
		return time.Duration(minute), carry
	}
	high, low := bits.Mul64(uint64(n), uint64(minute))
	low, over := bits.Add64(low, carry, 0)
	ns, rest := bits.Div64(high+over, low, uint64(most))
	return time.Duration(ns), rest
}

// roundUp is the carry that makes a price one that is rounded up.
func (p *pace) roundUp(of dimension) uint64 { return uint64(p.limits[of]) - 1 }

// carryAt is the carry for what comes next.
func (p *pace) carryAt(of dimension, instant int64) uint64 {
	if int64(p.lanes[of].Empty()) <= instant {
		return p.roundUp(of)
	}
	return p.lanes[of].carry
}

// opens is how long it takes until so much of a dimension may start: all of it where it
// is no more than the burst, and otherwise once the bucket is empty.
func (p *pace) opens(of dimension, n int, instant int64) time.Duration {
	if p.limits[of] <= 0 {
		return 0
	}
	price, _ := p.price(of, n, p.carryAt(of, instant))
	return p.lanes[of].Empty() - max(p.burst-price, 0) - time.Duration(instant)
}

// paceOf returns the buckets of a window for a quota; nil where it has none, or those of
// another quota.
func (w *window) paceOf(q *ModelQuota) *pace {
	if p := w.pace; p != nil && p.pacing == q.pacing() {
		return p
	}
	return nil
}

// admitsNow reports whether the buckets of a window in order let a request start. What
// has no buckets yet has charged nothing.
func (w *window) admitsNow(q *ModelQuota, c *cost, instant int64) bool {
	p := w.pace
	if !q.paces() || p == nil {
		return q.Burst >= 0
	}
	for of := range paced {
		if p.opens(of, c.of(of), instant) > 0 {
			return false
		}
	}
	return true
}

// followPacing makes the buckets those of a quota.
func (w *window) followPacing(q *ModelQuota, instant int64) {
	switch {
	case !q.paces():
		w.pace = nil
	case w.paceOf(q) == nil:
		w.pace = w.newPace(q.pacing(), w.pace, instant)
	}
}

// newPace makes buckets of what is in the window. What was charged before, nobody knows
// any more: it is taken to have filled the burst when the window begins, which is so
// where a program has been busy all the time, and makes no difference where it was idle
// for a moment since.
//
// Where there were buckets for another quota, they keep what is in them, at its price.
func (w *window) newPace(is pacing, was *pace, instant int64) *pace {
	p := &pace{pacing: is}
	for of := range p.lanes {
		p.lanes[of].Reset(time.Duration(instant-w.home.span()) + is.burst)
	}
	for i := range w.requests.Len() {
		p.pushRequest(w.requests.When(i))
	}
	amounts := w.sums.Values()
	for i := range w.tokens.Len() {
		p.pushTokens(w.tokens.When(i), amounts[i])
	}
	if was == nil {
		return p
	}
	for of := range paced {
		empty := p.lanes[of].Empty()
		if old := was.limits[of]; old > 0 && is.limits[of] > 0 {
			left := min(max(int64(was.lanes[of].Empty())-instant, 0), minute)
			empty = time.Duration(instant + rescale(left, old, is.limits[of]))
		}
		p.lanes[of].Reset(empty)
	}
	p.sealedRequests, p.sealedTokens = w.requests.Len(), w.tokens.Len()
	return p
}

// rescale is how long it takes at one limit to drain what takes ns at another; at most a
// minute.
func rescale(ns int64, was, is int) int64 {
	high, low := bits.Mul64(uint64(ns), uint64(was))
	if high >= uint64(is) {
		return minute
	}
	at, _ := bits.Div64(high, low, uint64(is))
	return int64(min(at, uint64(minute)))
}

func (p *pace) push(of dimension, instant int64, n int) {
	if p.limits[of] <= 0 {
		return
	}
	l := &p.lanes[of]
	price, carry := p.price(of, n, p.carryAt(of, instant))
	l.carry = carry
	l.Push(time.Duration(instant), price, time.Duration(minute))
}

func (p *pace) pushRequest(instant int64) { p.push(ofRPM, instant, 1) }

func (p *pace) pushTokens(instant int64, c tokens.Count) {
	for of := ofTPM; of < paced; of++ {
		p.push(of, instant, c.Of(of.kind()))
	}
}

// setTokens follows a change of the i-th oldest tokens.
func (p *pace) setTokens(i int, instant int64, c tokens.Count) {
	if i -= p.sealedTokens; i < 0 {
		return
	}
	for of := ofTPM; of < paced; of++ {
		if p.limits[of] > 0 {
			price, _ := p.price(of, c.Of(of.kind()), p.roundUp(of))
			p.lanes[of].Set(i, time.Duration(instant), price, time.Duration(minute))
		}
	}
}

// sealed reports whether a charge was made under another quota.
func (p *pace) sealed(request, token int) bool {
	return request >= 0 && request < p.sealedRequests || token >= 0 && token < p.sealedTokens
}

func (p *pace) removeRequest(i int) {
	if i < p.sealedRequests {
		p.sealedRequests--
	} else if p.limits[ofRPM] > 0 {
		p.lanes[ofRPM].Remove(i - p.sealedRequests)
	}
}

func (p *pace) removeTokens(i int) {
	if i < p.sealedTokens {
		p.sealedTokens--
		return
	}
	for of := ofTPM; of < paced; of++ {
		if p.limits[of] > 0 {
			p.lanes[of].Remove(i - p.sealedTokens)
		}
	}
}

// insert adds a charge before the one at a place among those that can be changed. One
// that is paid for under another quota costs nothing.
func (p *pace) insert(of dimension, place int, instant int64, n int, paid bool) {
	if p.limits[of] <= 0 || paid && place < 0 {
		return
	}
	if !paid && place == p.lanes[of].Len() {
		p.push(of, instant, n)
		return
	}
	price, _ := p.price(of, n, p.roundUp(of))
	depth := time.Duration(minute)
	if paid {
		price, depth = 0, bottomless // nor does it make anything run over
	}
	if place < 0 {
		p.lanes[of].Before(time.Duration(instant), price, depth)
	} else {
		p.lanes[of].Insert(place, time.Duration(instant), price, depth)
	}
}

func (p *pace) insertRequest(i int, instant int64, paid bool) {
	p.insert(ofRPM, i-p.sealedRequests, instant, 1, paid)
	if i < p.sealedRequests {
		p.sealedRequests++
	}
}

func (p *pace) insertTokens(i int, instant int64, c tokens.Count, paid bool) {
	for of := ofTPM; of < paced; of++ {
		p.insert(of, i-p.sealedTokens, instant, c.Of(of.kind()), paid)
	}
	if i < p.sealedTokens {
		p.sealedTokens++
	}
}

// drop follows requests and tokens that leave the window. Their buckets keep them.
func (p *pace) drop(requests, tokens int) {
	sealed := min(p.sealedRequests, requests)
	p.sealedRequests -= sealed
	if p.limits[ofRPM] > 0 {
		p.lanes[ofRPM].Drop(requests - sealed)
	}
	sealed = min(p.sealedTokens, tokens)
	p.sealedTokens -= sealed
	for of := ofTPM; of < paced; of++ {
		if p.limits[of] > 0 {
			p.lanes[of].Drop(tokens - sealed)
		}
	}
}
