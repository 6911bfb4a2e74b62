package limit

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Reservation is tokens that were taken from a TokenBucket in advance, and the instant at
// which they are there. The zero Reservation is not OK. Cancel a Reservation only once,
// counting its copies: each time would give the tokens back. Its methods are safe for
// concurrent use.
type Reservation struct {
	bucket *TokenBucket // nil if it is not OK
	tokens int
	limit  Limit         // of the bucket when it was made; 0 for Inf
	event  time.Time     // when the tokens are there
	held   time.Duration // how much later they are because of holds
}

// Reserve is ReserveN for one token at time.Now.
func (b *TokenBucket) Reserve() *Reservation { return b.ReserveN(time.Now(), 1) }

// ReserveN takes n tokens at t, even if they are not there yet, and returns when they will
// be. A caller that acts after the Delay of the Reservation keeps the limit; a caller that
// does not act has to Cancel it. The Reservation is not OK if n is more than the burst.
// Tokens on Hold count as taken.
func (b *TokenBucket) ReserveN(t time.Time, n int) *Reservation {
	r := b.reserveN(t, n, InfDuration)
	return &r
}

// reserveN takes n tokens if they are there at most longest after t.
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
	// Cancelling needs the distances between the events of reservations, which a hold that
	// ends must not change: so the event leaves the holds out.
	own := b.limit.wait(-left)
	b.tokens, b.last, b.event = left, t, t.Add(own)
	return Reservation{bucket: b, tokens: n, limit: b.limit, event: b.event, held: wait - own}
}

// OK reports whether the tokens were taken. If not, Delay returns InfDuration, and Cancel
// does nothing.
func (r *Reservation) OK() bool { return r.bucket != nil }

// Delay is DelayFrom time.Now.
func (r *Reservation) Delay() time.Duration { return r.DelayFrom(time.Now()) }

// DelayFrom returns how long it takes from t until the tokens are there: 0 if they are, and
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

// CancelAt gives the reserved tokens back at t, less the tokens reserved after it, whose
// times stay. It gives nothing back if the tokens were there before t. A Hold has no such
// conditions.
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
	// The events are in the order of the reservations, each its own tokens after the last.
	back := float64(r.tokens) - r.limit.tokens(b.event.Sub(r.event))
	if back <= 0 {
		return
	}
	b.tokens, b.last = b.tokensLocked(t)+back, t // readers cut them to the burst
	if r.event.Equal(b.event) {
		if before := r.event.Add(r.limit.duration(float64(-r.tokens))); !before.Before(t) {
			b.event = before
		}
	}
}

// Wait is WaitN for one token.
func (b *TokenBucket) Wait(ctx context.Context) error { return b.WaitN(ctx, 1) }

// WaitN reserves n tokens and waits until they are there. A negative n is added to the
// bucket. It returns at once an error that matches ErrNeverFits if n is more than the
// burst, or ErrDeadline if the tokens come after the deadline of the context. If the
// context ends first, it cancels the reservation and returns ctx.Err().
func (b *TokenBucket) WaitN(ctx context.Context, n int) error {
	return b.wait(ctx, n, time.Now(), func(ctx context.Context, d time.Duration) error { return pause(ctx, d, nil) })
}

// wait is WaitN from now on. sleep waits for a delay, or until the context ends, and then
// returns its error.
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
		// The burst may have changed since.
		return cmp.Or(b.neverFits(n), fmt.Errorf("wait for %d tokens: %w", n, ErrDeadline))
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

// neverFits returns the error for a request of more than the burst.
func (b *TokenBucket) neverFits(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.burst && b.limit != Inf {
		return fmt.Errorf("wait for %d tokens of a burst of %d: %w", n, b.burst, ErrNeverFits)
	}
	return nil
}
