package deadline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCall(t *testing.T) {
	failed := errors.New("failed")
	for _, heeds := range []bool{true, false} {
		value, err := Call(t.Context(), time.Second, heeds, func(context.Context) (int, error) { return 3, failed })
		if value != 3 || err != failed {
			t.Errorf("heeds %v: %d, %v", heeds, value, err)
		}
	}
}

func TestCallOfWhatHeedsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := Call(t.Context(), time.Second, false, func(context.Context) (int, error) {
			time.Sleep(time.Minute)
			return 3, nil
		})
		if took := time.Since(began); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
		time.Sleep(time.Minute) // the callee has returned then
	})
}
