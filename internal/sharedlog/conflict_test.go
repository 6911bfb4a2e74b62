package sharedlog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var total time.Duration
		for conflicts := range 100 {
			most := min(50*time.Microsecond<<min(conflicts, 8), 10*time.Millisecond)
			began := time.Now()
			if err := GiveWay(t.Context(), conflicts); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			if total += took; took >= most {
				t.Errorf("pauses for %v after %d conflicts, want less than %v", took, conflicts, most)
			}
		}
		if total < 100*time.Millisecond { // the mean is 460
			t.Errorf("a hundred pauses take %v", total)
		}
	})
}

func TestGiveWayUntilItsContextEnds(t *testing.T) {
	cause := errors.New("cause")
	for range 20 { // the pause may be over, too
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		if err := GiveWay(ctx, 8); err != nil {
			if !errors.Is(err, ErrNoTime) || !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			return
		}
	}
	t.Error("no error of a context that has ended")
}
