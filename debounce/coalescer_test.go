package debounce_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// Scripts are of the form "0 a=1": at 0 ms, add 1 under a; batches of the form
// "10 a=1 b=2": a flush at 10 ms.
func TestCoalescer(t *testing.T) {
	const ms = time.Millisecond
	sum := func(old, new int) int { return old + new }
	tests := []struct {
		name string
		opts debounce.CoalescerOptions[int]
		adds []string
		want []string
	}{
		{
			name: "quiet",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms},
			adds: []string{"0 a=1", "9 b=2", "18 c=3"},
			want: []string{"28 a=1 b=2 c=3"},
		},
		{
			name: "a key that is there counts as well",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms},
			adds: []string{"0 a=1", "9 a=1", "18 a=1"},
			want: []string{"28 a=1"},
		},
		{
			name: "two bursts",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms},
			adds: []string{"0 a=1", "11 a=2"},
			want: []string{"10 a=1", "21 a=2"},
		},
		{
			name: "the later value wins",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms},
			adds: []string{"0 a=1", "1 b=5", "2 a=2", "3 a=3"},
			want: []string{"13 a=3 b=5"},
		},
		{
			name: "merge",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms, Merge: sum},
			adds: []string{"0 a=1", "1 b=5", "2 a=2", "3 a=3"},
			want: []string{"13 a=6 b=5"},
		},
		{
			name: "merge knows nothing of the last batch",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms, Merge: sum},
			adds: []string{"0 a=1", "1 a=1", "20 a=1"},
			want: []string{"11 a=2", "30 a=1"},
		},
		{
			name: "merge gets zero values that were added",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms, Merge: func(old, new int) int { return 10*old + new + 1 }},
			adds: []string{"0 a=0", "1 a=0"},
			want: []string{"11 a=1"},
		},
		{
			name: "MaxWait counts from the first of the batch",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms, MaxWait: 25 * ms},
			adds: []string{"0 a=1", "8 b=1", "16 c=1", "24 d=1", "32 e=1", "40 f=1", "48 g=1", "56 h=1"},
			want: []string{"25 a=1 b=1 c=1 d=1", "57 e=1 f=1 g=1 h=1"},
		},
		{
			name: "MaxWait is Delay",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms, MaxWait: 10 * ms},
			adds: []string{"0 a=1", "9 b=1", "11 c=1"},
			want: []string{"10 a=1 b=1", "21 c=1"},
		},
		{
			name: "MaxSize",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms, MaxSize: 2},
			adds: []string{"0 a=1", "1 a=2", "2 b=3", "3 c=4"},
			want: []string{"2 a=2 b=3", "13 c=4"},
		},
		{
			name: "MaxSize 1",
			opts: debounce.CoalescerOptions[int]{Delay: 10 * ms, MaxSize: 1},
			adds: []string{"0 a=1", "1 a=2", "1 b=3"},
			want: []string{"0 a=1", "1 a=2", "1 b=3"},
		},
		{
			name: "zero options",
			adds: []string{"0 a=1", "1 a=2", "2 b=3"},
			want: []string{"0 a=1", "1 a=2", "2 b=3"},
		},
		{
			name: "no Delay, but MaxWait",
			opts: debounce.CoalescerOptions[int]{MaxWait: 10 * ms},
			adds: []string{"0 a=1", "1 a=2"},
			want: []string{"0 a=1", "1 a=2"},
		},
		{
			name: "as long as it gets",
			opts: debounce.CoalescerOptions[int]{Delay: math.MaxInt64, MaxWait: math.MaxInt64, MaxSize: 2},
			adds: []string{"0 a=1", "1000000 b=2"},
			want: []string{"1000000 a=1 b=2"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				start := time.Now()
				c := debounce.NewCoalescer(test.opts, func(batch map[string]int) {
					got = append(got, batchString(time.Since(start), batch))
				})
				for _, add := range test.adds {
					var at, value int
					var key string
					fields := strings.NewReplacer("=", " ").Replace(add)
					if _, err := fmt.Sscan(fields, &at, &key, &value); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Duration(at)*ms - time.Since(start))
					if !c.Add(key, value) {
						t.Errorf("%s: not taken", add)
					}
					synctest.Wait()
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if !slices.Equal(got, test.want) {
					t.Errorf("got  %q\nwant %q", got, test.want)
				}
			})
		})
	}
}

// batchString is "10 a=1 b=2".
func batchString(at time.Duration, batch map[string]int) string {
	s := fmt.Sprint(at.Milliseconds())
	for _, key := range slices.Sorted(maps.Keys(batch)) {
		s += fmt.Sprintf(" %s=%d", key, batch[key])
	}
	return s
}

func TestCoalescerBatchIsTheFlushers(t *testing.T) {
	var kept []map[string]int
	c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{
		Delay: time.Hour,
		Merge: func(old, new int) int { return old + new },
	}, func(batch map[string]int) {
		batch["z"] = len(kept)
		kept = append(kept, batch)
	})
	for _, value := range []int{1, 10} {
		c.Add("a", value)
		c.Add("a", value)
		c.Flush()
	}
	kept[0]["a"]++
	for i, want := range []map[string]int{{"a": 3, "z": 0}, {"a": 20, "z": 1}} {
		if !maps.Equal(kept[i], want) {
			t.Errorf("batch %d: %v, want %v", i, kept[i], want)
		}
	}
}

// NaN is not equal to itself: each is a key of its own, with nothing to merge.
func TestCoalescerNaN(t *testing.T) {
	for name, merge := range map[string]func(old, new int) int{
		"latest": nil,
		"merge":  func(old, new int) int { panic("merged") },
	} {
		t.Run(name, func(t *testing.T) {
			var got [][]int
			c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{
				Delay: time.Hour, MaxSize: 3, Merge: merge,
			}, func(batch map[float64]int) { got = append(got, slices.Sorted(maps.Values(batch))) })
			for v := range 5 {
				c.Add(math.NaN(), v)
			}
			if err := c.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := [][]int{{0, 1, 2}, {3, 4}}; !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("batches %v, want %v", got, want)
			}
		})
	}
}

// An unhashable key panics in its own Add, and disturbs no other.
func TestCoalescerUnhashableKey(t *testing.T) {
	sum := func(old, new int) int { return old + new }
	for name, merge := range map[string]func(old, new int) int{"latest": nil, "merge": sum} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []map[any]int
				c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{Delay: time.Second, Merge: merge},
					func(batch map[any]int) { got = append(got, batch) })
				for range 2 { // with an empty batch, and with one that is not
					if p := batchPanic(func() { c.Add([]int{1}, 1) }); p == nil {
						t.Error("an unhashable key was taken")
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if len(got) > 0 {
						t.Fatalf("flushed %v, which nobody added", got)
					}
					c.Add("a", 2)
					if p := batchPanic(func() { c.Add(map[int]int{}, 1) }); p == nil {
						t.Error("an unhashable key was taken")
					}
					c.Flush()
					if len(got) != 1 || !maps.Equal(got[0], map[any]int{"a": 2}) {
						t.Errorf("batches %v, want one with a=2", got)
					}
					got = nil
				}
			})
		})
	}
}

// batchPanic returns what f panics with.
func batchPanic(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

func TestCoalescerMisuse(t *testing.T) {
	flush := func(map[int]int) {}
	tests := []struct {
		opts  debounce.CoalescerOptions[int]
		flush func(map[int]int)
		want  string
	}{
		{debounce.CoalescerOptions[int]{}, nil, "debounce.NewCoalescer: flush is nil"},
		{debounce.CoalescerOptions[int]{Delay: -1}, flush, "debounce.NewCoalescer: Delay is -1ns, want 0 or more"},
		{debounce.CoalescerOptions[int]{MaxWait: -1}, flush, "debounce.NewCoalescer: MaxWait is -1ns, want 0 or more"},
		{debounce.CoalescerOptions[int]{Delay: 2, MaxWait: 1}, flush, "debounce.NewCoalescer: MaxWait is 1ns, want 0 or at least Delay, which is 2ns"},
		{debounce.CoalescerOptions[int]{MaxSize: -3}, flush, "debounce.NewCoalescer: MaxSize is -3, want 0 or more"},
	}
	for _, test := range tests {
		if p := batchPanic(func() { debounce.NewCoalescer(test.opts, test.flush) }); p != test.want {
			t.Errorf("%v\npanics with %v\nwant         %v", test.opts, p, test.want)
		}
	}
}
