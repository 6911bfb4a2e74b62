package limit

import (
	"context"
	"fmt"
	"time"
)

// Reservation is tokens of a TokenBucket that were taken in advance, and when they are
// there. The zero Reservation is not OK. A Reservation must not be copied into two that
// are both cancelled, nor cancelled twice: what it gives back, it would give twice.
// Its methods are safe for concurrent use.
type Reservation struct {
	bucket *TokenBucket // nil when it is not OK
	tokens int
	limit  Limit         // when it was made; 0 of one made at Inf
	event  time.Time     // when the tokens are there
	held   time.Duration // how much later they are because of what is on hold
}

// Reserve is ReserveN for one token at time.Now.
func (b *TokenBucket) Reserve() *Reservation { return b.ReserveN(time.Now(), 1) }

// ReserveN takes n tokens at t, whether they are there or not, and returns when they
// will be: whoever acts after the Delay of the Reservation keeps the limit, and who does
// not act has to Cancel it. It is not OK when n is more than the burst. What is on Hold
// counts as taken.
func (b *TokenBucket) ReserveN(t time.Time, n int) *Reservation {
	r := b.reserveN(t, n, InfDuration)
	return &r
}

// reserveN takes n tokens if they are there at t or at most longest later.
func (b *TokenBucket) reserveN(t time.Time, n int, longest time.Duration) Reservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit == Inf {
		return Reservation{bucket: b, tokens: n, event: t}
	}
	left := b.tokensLocked(t) - float64(n)
	wait := b.limit.wait(b.heldLocked() - left)
	if n > b.burst || wait > longest {
		return Reservation{}
	}
	// How much of the order of the reservations lies in their events is needed to cancel
	// one, and a hold that ends does not change that.
	own := b.limit.wait(-left)
	b.tokens, b.last, b.event = left, t, t.Add(own)
	return Reservation{bucket: b, tokens: n, limit: b.limit, event: b.event, held: wait - own}
}

// OK reports whether the tokens were taken. If not, Delay is InfDuration, and Cancel does
// nothing.
func (r *Reservation) OK() bool { return r.bucket != nil }

// Delay is DelayFrom time.Now.
func (r *Reservation) Delay() time.Duration { return r.DelayFrom(time.Now()) }

// DelayFrom returns how long to wait at t until the tokens are there: 0 if they are, and
// InfDuration if the Reservation is not OK.
func (r *Reservation) DelayFrom(t time.Time) time.Duration {
	if !r.OK() {
		return InfDuration
	}
	return max(r.ready().Sub(t), 0)
}

func (r *Reservation) ready() time.Time { return r.event.Add(r.held) }

// Cancel is CancelAt time.Now.
func (r *Reservation) Cancel() { r.CancelAt(time.Now()) }

// CancelAt gives back at t what was reserved, less what was reserved after it, whose
// times are settled. It gives back nothing when the Reservation could have been acted on
// before t. A Hold has no such conditions.
func (r *Reservation) CancelAt(t time.Time) {
	if !r.OK() {
		return
	}
	b := r.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit == Inf || r.tokens == 0 || r.ready().Before(t) {
		return
	}
	// The events are in the order of the reservations, as far apart as they are large.
	back := float64(r.tokens) - r.limit.tokens(b.event.Sub(r.event))
	if back <= 0 {
		return
	}
	b.tokens, b.last = b.tokensLocked(t)+back, t // never read beyond the burst
	if r.event.Equal(b.event) {
		if before := r.event.Add(r.limit.duration(float64(-r.tokens))); !before.Before(t) {
			b.event = before
		}
	}
}

// Wait is WaitN for one token.
func (b *TokenBucket) Wait(ctx context.Context) error { return b.WaitN(ctx, 1) }

// WaitN reserves n tokens and waits until they are there. A negative n is given to the
// bucket. It returns an error that
// matches ErrNeverFits when n is more than the burst, and ErrDeadline when the context
// has a deadline before the tokens are there, both at once; and ctx.Err() when the
// context ends first. Then the reservation is cancelled.
func (b *TokenBucket) WaitN(ctx context.Context, n int) error {
	return b.wait(ctx, n, time.Now(), sleep)
}

// wait is WaitN from now on, with something that waits for a delay or for the context,
// and in that case returns its error.
func (b *TokenBucket) wait(ctx context.Context, n int, now time.Time, sleep func(context.Context, time.Duration) error) error {
	if err := b.neverFits(n); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	longest := InfDuration
	if deadline, ok := ctx.Deadline(); ok {
		longest = deadline.Sub(now)
	}
	r := b.reserveN(now, n, longest)
	if !r.OK() {
		// Somebody may have set the burst meanwhile.
		if err := b.neverFits(n); err != nil {
			return err
		}
		return fmt.Errorf("wait for %d tokens: %w", n, ErrDeadline)
	}
	delay := r.DelayFrom(now)
	if delay == 0 {
		return nil
	}
	err := sleep(ctx, delay)
	if err != nil {
		r.Cancel()
	}
	return err
}

// neverFits returns the error of a request for more than the burst.
func (b *TokenBucket) neverFits(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.burst && b.limit != Inf {
		return fmt.Errorf("wait for %d tokens of a burst of %d: %w", n, b.burst, ErrNeverFits)
	}
	return nil
}

// sleep waits for d, or until the context ends and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
