package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of reservation.go:
//   - wait that sleeps for a delay of 0, and a timer that is not stopped.
//
// The second look at neverFits, for a burst that was set between two locks, no test can
// place.

// Six reservations of one token, 10 a second: each waits a tenth longer than the last.
func TestReservationsWaitInARow(t *testing.T) {
	b := limit.NewTokenBucket(10, 1)
	for i := range 6 {
		want := time.Duration(i) * tenth
		if d := b.ReserveN(after(0), 1).DelayFrom(after(0)); d != want {
			t.Errorf("reservation %d: %v, want %v", i+1, d, want)
		}
	}
	if b.AllowN(after(5*tenth), 1) || !b.AllowN(after(6*tenth), 1) {
		t.Error("the seventh does not pass after 0.6 s")
	}
}

func TestReservationDelay(t *testing.T) {
	b := limit.NewTokenBucket(10, 2)
	b.AllowN(after(0), 2)
	r := b.ReserveN(after(0), 2)
	for _, c := range []struct{ at, want time.Duration }{
		{-tenth, 3 * tenth}, {0, 2 * tenth}, {tenth, tenth}, {2 * tenth, 0}, {3 * tenth, 0},
	} {
		if d := r.DelayFrom(after(c.at)); d != c.want {
			t.Errorf("at %v: %v, want %v", c.at, d, c.want)
		}
	}
	for name, r := range map[string]*limit.Reservation{
		"more than the burst": b.ReserveN(after(0), 3),
		"zero":                {},
	} {
		r.CancelAt(after(0))
		r.Cancel()
		if r.OK() || r.Delay() != limit.InfDuration || r.DelayFrom(after(0)) != limit.InfDuration {
			t.Errorf("%s: OK %v, delay %v", name, r.OK(), r.Delay())
		}
	}
	if tokens := b.TokensAt(after(0)); tokens != -2 {
		t.Errorf("%v tokens, want -2", tokens)
	}
	if r := limit.NewTokenBucket(limit.Inf, 0).ReserveN(after(0), 1000); !r.OK() || r.DelayFrom(after(0)) != 0 {
		t.Errorf("at Inf: OK %v, delay %v", r.OK(), r.DelayFrom(after(0)))
	}
	zero := limit.NewTokenBucket(0, 1)
	zero.AllowN(after(0), 1)
	if r := zero.ReserveN(after(0), 1); !r.OK() || r.DelayFrom(after(0)) != limit.InfDuration {
		t.Errorf("at limit 0: OK %v, delay %v, want for ever", r.OK(), r.DelayFrom(after(0)))
	}
}

// Reserve takes one token, and a Reservation of none gives none back.
func TestReservationOfOneAndOfNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limit.NewTokenBucket(1, 3)
		if r := b.Reserve(); !r.OK() || b.Tokens() != 2 {
			t.Errorf("ok %v, %v tokens, want 2", r.OK(), b.Tokens())
		}
	})
	b := limit.NewTokenBucket(1, 3)
	none := b.ReserveN(after(10*time.Second), 0)
	b.AllowN(after(0), 3)
	none.CancelAt(after(0))
	if tokens := b.TokensAt(after(0)); tokens != 0 {
		t.Errorf("%v tokens after nothing was given back", tokens)
	}
}

// Cancel in time gives back the tokens less those reserved after it.
func TestReservationCancel(t *testing.T) {
	for _, c := range []struct {
		name         string
		n            int
		after        int // reserved after it
		cancelledAt  time.Duration
		tokensBefore float64 // at cancelledAt
		tokens       float64
	}{
		{"the last", 2, 0, 0, -2, 0},
		{"before a smaller one", 2, 1, 0, -3, -2},
		{"before a larger one", 1, 2, 0, -3, -3},
		{"when it could act", 2, 0, 2 * tenth, 0, 2},
		{"too late", 2, 0, 2*tenth + tenth/2, 0.5, 0.5},
		{"of none", 0, 0, 0, 0, 0},
		{"before its time", 2, 0, -tenth, -2, 0},
	} {
		b := limit.NewTokenBucket(10, 2)
		b.AllowN(after(0), 2)
		r := b.ReserveN(after(0), c.n)
		if c.after > 0 {
			b.ReserveN(after(0), c.after)
		}
		at := after(c.cancelledAt)
		if tokens := b.TokensAt(at); tokens != c.tokensBefore {
			t.Errorf("%s: %v tokens before, want %v", c.name, tokens, c.tokensBefore)
		}
		r.CancelAt(at)
		if tokens := b.TokensAt(at); tokens != c.tokens {
			t.Errorf("%s: %v tokens, want %v", c.name, tokens, c.tokens)
		}
	}
}

// What a reservation gives back does not make the bucket fuller than full.
func TestReservationCancelUpToTheBurst(t *testing.T) {
	b := limit.NewTokenBucket(10, 3)
	r := b.ReserveN(after(0), 3)
	b.SetBurstAt(after(0), 2)
	r.CancelAt(after(0))
	b.SetBurstAt(after(0), 10)
	if tokens := b.TokensAt(after(0)); tokens != 2 {
		t.Errorf("%v tokens, want 2", tokens)
	}
}

// Several are cancelled as if each had been the last, if the later ones go first; and
// nothing is given back that was taken since.
func TestReservationsCancelInTurn(t *testing.T) {
	b := limit.NewTokenBucket(10, 4)
	b.AllowN(after(0), 4)
	first, _, last := b.ReserveN(after(0), 3), b.ReserveN(after(0), 1), b.ReserveN(after(0), 1)
	for i, c := range []struct {
		r    *limit.Reservation
		want float64
	}{{last, -3}, {first, -1}} {
		c.r.CancelAt(after(tenth))
		if tokens := b.TokensAt(after(tenth)); tokens != c.want {
			t.Errorf("%d: %v tokens, want %v", i+1, tokens, c.want)
		}
	}
	for name, take := range map[string]func(*limit.TokenBucket) bool{
		"AllowN": func(b *limit.TokenBucket) bool { return b.AllowN(after(tenth), 1) },
		"TakeAt": func(b *limit.TokenBucket) bool { return b.TakeAt(after(tenth), 1).OK },
	} {
		b := limit.NewTokenBucket(10, 3)
		r := b.ReserveN(after(0), 1)
		if !take(b) {
			t.Error(name, "was refused")
		}
		r.CancelAt(after(0))
		if tokens := b.TokensAt(after(tenth)); tokens != 2 {
			t.Errorf("%s: %v tokens, want 2", name, tokens)
		}
	}
}

// A reservation beside a hold can be cancelled until it could act, which is later than
// without the hold.
// Cancel moves the end of the reservations only if it was the last one, and only to a time
// that has not passed.
func TestReservationCancelKeepsTheOrder(t *testing.T) {
	b := limit.NewTokenBucket(10, 5)
	b.AllowN(after(0), 5)
	first, second := b.ReserveN(after(0), 2), b.ReserveN(after(0), 1)
	first.CancelAt(after(0))
	second.CancelAt(after(0))
	if tokens := b.TokensAt(after(0)); tokens != -1 { // what second took stays behind first
		t.Errorf("both of two: %v tokens, want -1", tokens)
	}

	b = limit.NewTokenBucket(10, 3)
	b.AllowN(after(0), 1)
	first, second = b.ReserveN(after(0), 1), b.ReserveN(after(0), 1)
	second.CancelAt(after(0))
	first.CancelAt(after(0))
	if tokens := b.TokensAt(after(0)); tokens != 2 {
		t.Errorf("both, whose tokens were there: %v tokens, want 2", tokens)
	}
}

func TestReservationCancelBesideAHold(t *testing.T) {
	b := limit.NewTokenBucket(10, 5)
	b.HoldAt(after(0), 5)
	r := b.ReserveN(after(0), 2)
	r.CancelAt(after(tenth))
	if tokens := b.TokensAt(after(tenth)); tokens != 5 {
		t.Errorf("%v tokens, want 5", tokens)
	}
}

// A context that has ended takes nothing, though it could pass.
func TestTokenBucketWaitOfTheEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := limit.NewTokenBucket(0, 1)
	if err := b.Wait(ctx); err != context.Canceled || !b.Allow() {
		t.Errorf("%v", err)
	}
}

// Wait decides at once whether it can pass in time.
func TestTokenBucketWaitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		short, cancel := context.WithTimeout(t.Context(), tenth-1)
		defer cancel()
		for _, c := range []struct {
			name string
			ctx  context.Context
			n    int
			want []error
		}{
			{"more than the burst", t.Context(), 2, []error{limit.ErrNeverFits}},
			{"more than the burst, and ended", ended, 2, []error{limit.ErrNeverFits}},
			{"ended", ended, 1, []error{context.Canceled}},
			{"too short", short, 1, []error{limit.ErrDeadline, context.DeadlineExceeded}},
		} {
			b := limit.NewTokenBucket(10, 1)
			b.Allow()
			begin := time.Now()
			err := b.WaitN(c.ctx, c.n)
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", c.name, err, want)
				}
			}
			if waited := time.Since(begin); waited != 0 {
				t.Errorf("%s: after %v", c.name, waited)
			}
			if tokens := b.Tokens(); tokens != 0 {
				t.Errorf("%s: %v tokens, want 0", c.name, tokens)
			}
		}
		// A burst that matters only below Inf.
		if err := limit.NewTokenBucket(limit.Inf, 0).WaitN(t.Context(), 1000); err != nil {
			t.Error(err)
		}
		for _, r := range []limit.Limit{0, -1} {
			b := limit.NewTokenBucket(r, -1)
			if err := b.Wait(t.Context()); !errors.Is(err, limit.ErrNeverFits) {
				t.Errorf("limit %v, burst -1: %v", r, err)
			}
		}
	})
}

// Wait passes when its tokens are there, in the order of the calls.
func TestTokenBucketWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limit.NewTokenBucket(10, 2)
		begin := time.Now()
		in := func(d time.Duration) context.Context {
			ctx, cancel := context.WithDeadline(t.Context(), begin.Add(d))
			t.Cleanup(cancel)
			return ctx
		}
		for _, c := range []struct {
			ctx  context.Context
			n    int
			want time.Duration // since begin
		}{
			{t.Context(), 1, 0},
			{t.Context(), 1, 0},
			{t.Context(), 1, tenth},
			{in(3 * tenth), 2, 3 * tenth}, // to the nanosecond
			{t.Context(), 0, 3 * tenth},
			{t.Context(), 1, 4 * tenth},
		} {
			if err := b.WaitN(c.ctx, c.n); err != nil {
				t.Errorf("%d tokens: %v", c.n, err)
			}
			if waited := time.Since(begin); waited != c.want {
				t.Errorf("%d tokens: after %v, want %v", c.n, waited, c.want)
			}
		}
	})
}

// WaitN gives its tokens back if the context ends first.
func TestTokenBucketWaitGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limit.NewTokenBucket(10, 3)
		b.AllowN(time.Now(), 3)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.WaitN(ctx, 3) }()
		time.Sleep(tenth)
		synctest.Wait()
		if tokens := b.Tokens(); tokens != -2 {
			t.Errorf("%v tokens while one waits, want -2", tokens)
		}
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
		if tokens := b.Tokens(); tokens != 1 {
			t.Errorf("%v tokens, want 1", tokens)
		}
	})
}
