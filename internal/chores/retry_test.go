package chores

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const second = time.Second

func TestTimer(t *testing.T) {
	for _, tt := range []struct {
		name        string
		first, last time.Duration
		do          func(*retryTimer) // at the start, and
		again       int               // so many calls fail
		want        []time.Duration   // when the function is called
	}{
		{name: "nothing failed", first: second, last: 8 * second, do: func(*retryTimer) {}},
		{
			name: "one failure", first: second, last: 8 * second, do: (*retryTimer).Failed,
			want: []time.Duration{second},
		},
		{
			name: "pauses double up to the last", first: second, last: 5 * second, do: (*retryTimer).Failed, again: 4,
			want: []time.Duration{second, 3 * second, 7 * second, 12 * second, 17 * second},
		},
		{
			name: "a first pause beyond the last", first: 9 * second, last: 5 * second, do: (*retryTimer).Failed, again: 1,
			want: []time.Duration{9 * second, 18 * second},
		},
		{
			name: "a failure restarts the pause", first: second, last: 8 * second,
			do: func(timer *retryTimer) {
				timer.Failed()
				time.Sleep(second / 2)
				timer.Failed()
			},
			want: []time.Duration{5 * second / 2},
		},
		{
			name: "a success ends the pause", first: second, last: 8 * second,
			do: func(timer *retryTimer) {
				timer.Failed()
				timer.Succeeded()
			},
		},
		{
			name: "after a success the first pause comes again", first: second, last: 8 * second,
			do: func(timer *retryTimer) {
				timer.Failed()
				timer.Failed()
				timer.Succeeded()
				timer.Failed()
			},
			want: []time.Duration{second},
		},
		{
			name: "nothing after the end", first: second, last: 8 * second,
			do: func(timer *retryTimer) {
				timer.Failed()
				timer.Stop()
				timer.Failed()
			},
		},
		{
			name: "the end without a failure", first: second, last: 8 * second,
			do: func(timer *retryTimer) {
				timer.Succeeded()
				timer.Stop()
				timer.Stop()
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var called []time.Duration
				var mu sync.Mutex // the owner's lock
				var timer *retryTimer
				timer = newRetryTimer(tt.first, tt.last, func() {
					mu.Lock()
					defer mu.Unlock()
					if called = append(called, time.Since(began)); len(called) <= tt.again {
						timer.Failed()
					}
				})
				mu.Lock()
				tt.do(timer)
				mu.Unlock()
				time.Sleep(time.Hour)
				mu.Lock()
				defer mu.Unlock()
				if !slices.Equal(called, tt.want) {
					t.Errorf("called after %v, want %v", called, tt.want)
				}
			})
		})
	}
}
