package debounce_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

func TestBatcher(t *testing.T) {
	const ms = time.Millisecond
	type flushed struct {
		at     int
		values []int
	}
	tests := []struct {
		name string
		opts debounce.BatcherOptions
		adds []int // instants; the values are 0, 1, 2, ...
		want []flushed
	}{
		{"quiet", debounce.BatcherOptions{Delay: 10 * ms}, []int{0, 9, 18, 29}, []flushed{{28, []int{0, 1, 2}}, {39, []int{3}}}},
		{"MaxWait", debounce.BatcherOptions{Delay: 10 * ms, MaxWait: 15 * ms}, []int{0, 8, 16, 24}, []flushed{{15, []int{0, 1}}, {31, []int{2, 3}}}},
		{"MaxSize", debounce.BatcherOptions{Delay: 10 * ms, MaxSize: 3}, []int{0, 0, 5, 5}, []flushed{{5, []int{0, 1, 2}}, {15, []int{3}}}},
		{"MaxSize 1", debounce.BatcherOptions{Delay: 10 * ms, MaxSize: 1}, []int{0, 0, 5}, []flushed{{0, []int{0}}, {0, []int{1}}, {5, []int{2}}}},
		{"zero options", debounce.BatcherOptions{}, []int{0, 1}, []flushed{{0, []int{0}}, {1, []int{1}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []flushed
				start := time.Now()
				b := debounce.NewBatcher(test.opts, func(batch []int) {
					got = append(got, flushed{int(time.Since(start) / ms), batch})
				})
				for v, at := range test.adds {
					time.Sleep(time.Duration(at)*ms - time.Since(start))
					if !b.Add(v) {
						t.Errorf("value %d was not taken", v)
					}
					synctest.Wait()
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				equal := func(a, b flushed) bool { return a.at == b.at && slices.Equal(a.values, b.values) }
				if !slices.EqualFunc(got, test.want, equal) {
					t.Errorf("got  %v\nwant %v", got, test.want)
				}
			})
		})
	}
}

// What flush appends to a batch, or changes in it, is in no other.
func TestBatcherBatchIsTheFlushers(t *testing.T) {
	var kept [][]int
	b := debounce.NewBatcher(debounce.BatcherOptions{Delay: time.Hour}, func(batch []int) {
		kept = append(kept, batch)
	})
	for v := range 3 {
		b.Add(10 * v)
		b.Add(10*v + 1)
		b.Flush()
		_ = append(kept[v], -1) // where a next value would be, were the array still in use
	}
	kept[0][0] = 7
	if want := [][]int{{7, 1}, {10, 11}, {20, 21}}; !slices.EqualFunc(kept, want, slices.Equal) {
		t.Errorf("batches %v, want %v", kept, want)
	}
}

func TestBatcherMisuse(t *testing.T) {
	flush := func([]int) {}
	tests := []struct {
		opts  debounce.BatcherOptions
		flush func([]int)
		want  string
	}{
		{debounce.BatcherOptions{}, nil, "debounce.NewBatcher: flush is nil"},
		{debounce.BatcherOptions{Delay: -time.Second}, flush, "debounce.NewBatcher: Delay is -1s, want 0 or more"},
		{debounce.BatcherOptions{MaxWait: -1}, flush, "debounce.NewBatcher: MaxWait is -1ns, want 0 or more"},
		{debounce.BatcherOptions{Delay: 2, MaxWait: 1}, flush, "debounce.NewBatcher: MaxWait is 1ns, want 0 or at least Delay, which is 2ns"},
		{debounce.BatcherOptions{MaxSize: -1}, flush, "debounce.NewBatcher: MaxSize is -1, want 0 or more"},
	}
	for _, test := range tests {
		if p := batchPanic(func() { debounce.NewBatcher(test.opts, test.flush) }); p != test.want {
			t.Errorf("%v\npanics with %v\nwant         %v", test.opts, p, test.want)
		}
	}
}
