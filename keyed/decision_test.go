package keyed_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// epoch is the beginning of a cell of every window that the tests use.
var epoch = time.Unix(1_700_006_400, 0).UTC() // a midnight

func newLimiter(t testing.TB, options keyed.Options) *keyed.Limiter {
	t.Helper()
	lim, err := keyed.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// takeAfter is TakeAt without an error, at an offset from epoch.
func takeAfter(t testing.TB, lim *keyed.Limiter, after time.Duration, r keyed.Request) limit.Decision {
	t.Helper()
	d, err := lim.TakeAt(background, epoch.Add(after), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecision(t *testing.T) {
	const s = time.Second
	const half = math.MaxInt/2 + 1
	type step struct {
		after time.Duration // since epoch
		most  int
		cost  int
		want  limit.Decision
	}
	for _, test := range []struct {
		name  string
		steps []step // on one counter with a window of 10 s
	}{
		{"a limit is used up and comes back with the cell after the next", []step{
			{0, 2, 1, limit.Decision{OK: true, Remaining: 1, ResetAfter: 10*s + 1}},
			{4 * s, 2, 1, limit.Decision{OK: true, ResetAfter: 11*s + 1}}, // ⌊2 × 5/10⌋ is 1 until then
			{4 * s, 2, 1, limit.Decision{RetryAfter: 6*s + 1, ResetAfter: 11*s + 1}},
			{10 * s, 2, 1, limit.Decision{RetryAfter: 1, ResetAfter: 5*s + 1}},
			{10*s + 1, 2, 1, limit.Decision{OK: true, ResetAfter: 10 * s}},
		}},
		{"the previous cell weighs as much as the window still covers of it", []step{
			{9 * s, 100, 100, limit.Decision{OK: true, ResetAfter: 1*s + 9900000000 + 1}},
			{15 * s, 100, 0, limit.Decision{OK: true, Remaining: 50, ResetAfter: 4900000001}},
			{15 * s, 100, 51, limit.Decision{Remaining: 50, RetryAfter: 1, ResetAfter: 4900000001}},
			{15 * s, 100, 50, limit.Decision{OK: true, ResetAfter: 14800000001}},
			{20 * s, 100, 0, limit.Decision{OK: true, Remaining: 50, ResetAfter: 9800000001}},
			{30 * s, 100, 0, limit.Decision{OK: true, Remaining: 100}},
		}},
		{"a cost above the limit never passes, and hinders nobody", []step{
			{0, 5, 6, limit.Decision{Remaining: 5, Never: true}},
			{0, 5, math.MaxInt, limit.Decision{Remaining: 5, Never: true}},
			{0, 5, 5, limit.Decision{OK: true, ResetAfter: 18*s + 1}},
			{0, 5, 6, limit.Decision{Never: true, ResetAfter: 18*s + 1}},
		}},
		{"two requests of half of the largest limit and one", []step{
			{0, half, half, limit.Decision{OK: true, ResetAfter: 20*s - 10*s/half}},
			{0, half, half, limit.Decision{RetryAfter: 20*s - 10*s/half, ResetAfter: 20*s - 10*s/half}},
		}},
		{"the largest limit and cost", []step{
			{0, math.MaxInt, math.MaxInt, limit.Decision{OK: true, ResetAfter: 20*s - 10*s/math.MaxInt}},
			{0, math.MaxInt, 1, limit.Decision{RetryAfter: 10*s + 1, ResetAfter: 20*s - 10*s/math.MaxInt}},
			{10 * s, math.MaxInt, 1, limit.Decision{RetryAfter: 1, ResetAfter: 10*s - 10*s/math.MaxInt}},
			{20 * s, math.MaxInt, math.MaxInt, limit.Decision{OK: true, ResetAfter: 20*s - 10*s/math.MaxInt}},
		}},
		{"a lower limit for the same counter", []step{
			{0, 10, 8, limit.Decision{OK: true, Remaining: 2, ResetAfter: 18750000001}},
			{0, 4, 0, limit.Decision{RetryAfter: 13750000001, ResetAfter: 18750000001}}, // ⌊8 × w⌋ ≤ 4
			{0, 4, 1, limit.Decision{RetryAfter: 15*s + 1, ResetAfter: 18750000001}},
			{0, 12, 4, limit.Decision{OK: true, ResetAfter: 20*s - 10*s/12}},
		}},
		{"an instant in an earlier cell counts as the beginning of the later one", []step{
			{10 * s, 2, 2, limit.Decision{OK: true, ResetAfter: 15*s + 1}},
			{5 * s, 2, 1, limit.Decision{RetryAfter: 15*s + 1, ResetAfter: 20*s + 1}},
			{-1000 * s, 2, 1, limit.Decision{RetryAfter: 1020*s + 1, ResetAfter: 1025*s + 1}},
			{5 * s, 3, 1, limit.Decision{OK: true, ResetAfter: 5*s + 10*s + 6666666667}},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			lim := newLimiter(t, keyed.Options{})
			for i, s := range test.steps {
				r := keyed.Request{Namespace: "n", Key: "k", Limit: s.most, Window: 10 * time.Second}
				got := takeAfter(t, lim, s.after, costing(r, s.cost))
				if got != s.want {
					t.Errorf("step %d, %+v:\n got %+v\nwant %+v", i, s, got, s.want)
				}
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	good := keyed.Request{Namespace: "n", Key: "k", Limit: 1, Window: time.Second, Cost: 1}
	for _, test := range []struct {
		field  string
		change func(*keyed.Request)
	}{
		{"Namespace is empty", func(r *keyed.Request) { r.Namespace = "" }},
		{"Key is empty", func(r *keyed.Request) { r.Key = "" }},
		{"Limit is 0", func(r *keyed.Request) { r.Limit = 0 }},
		{fmt.Sprintf("Limit is %d", math.MinInt), func(r *keyed.Request) { r.Limit = math.MinInt }},
		{"Window is 0s", func(r *keyed.Request) { r.Window = 0 }},
		{"Window is 999.999µs", func(r *keyed.Request) { r.Window = time.Millisecond - 1 }},
		{"Window is 9600h0m0.000000001s", func(r *keyed.Request) { r.Window = 400*24*time.Hour + 1 }},
		{"Cost is -2", func(r *keyed.Request) { r.Cost = -2 }},
	} {
		lim := newLimiter(t, keyed.Options{})
		bad := good
		test.change(&bad)
		errs := map[string]error{}
		_, errs["take"] = lim.Take(background, bad)
		_, errs["take many"] = lim.TakeAll(background, good, bad)
		_, _, errs["hold"] = lim.Hold(background, bad)
		_, _, errs["hold many"] = lim.HoldAll(background, good, bad)
		for call, err := range errs {
			if !errors.Is(err, keyed.ErrInvalid) || !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), test.field) {
				t.Errorf("%s: error %v, want one that matches ErrInvalid and says %q", call, err, test.field)
			}
		}
		if n := lim.Len(); n != 0 {
			t.Errorf("%s: %d counters, want none", test.field, n)
		}
	}
	for _, window := range []time.Duration{time.Millisecond, 400 * 24 * time.Hour} {
		r := good
		r.Window = window
		if d, err := newLimiter(t, keyed.Options{}).Take(background, r); err != nil || !d.OK {
			t.Errorf("window of %v: %+v, %v", window, d, err)
		}
	}
	for _, o := range []keyed.Options{{MaxKeys: -1}, {ExchangeEvery: -1}} {
		if _, err := keyed.New(o); !errors.Is(err, keyed.ErrInvalid) {
			t.Errorf("%+v: error %v, want one that matches ErrInvalid", o, err)
		}
	}
}

// Parts of a name cannot be mistaken for others, whatever is in them.
func TestNamesOfCounters(t *testing.T) {
	long := strings.Repeat("k", 45)
	names := []keyed.Request{
		{Namespace: "a-b", Key: "c"}, {Namespace: "a", Key: "b-c"}, {Namespace: "a-b-c", Key: "\x00"},
		{Namespace: "a", Key: "b\x00c"}, {Namespace: "a\x00b", Key: "c"}, {Namespace: "ab", Key: "c"}, {Namespace: "a", Key: "bc"},
		{Namespace: "a", Key: long}, {Namespace: "a", Key: long + "k"}, {Namespace: "a", Key: long + "kk"},
		{Namespace: "a", Key: long + "kl"}, {Namespace: "b", Key: long + "kl"}, {Namespace: "a", Key: strings.Repeat("é", 200)},
		{Namespace: "c", Key: "a"}, {Namespace: "\xff", Key: "\xfe"}, {Namespace: "\xfe", Key: "\xff"},
	}
	lim := newLimiter(t, keyed.Options{})
	for pass, want := range []bool{true, false} {
		for _, r := range names {
			for _, window := range []time.Duration{time.Second, time.Minute} {
				r.Limit, r.Cost, r.Window = 1, 1, window
				if d := takeAfter(t, lim, 0, r); d.OK != want {
					t.Errorf("pass %d, %q %q %v: %+v", pass, r.Namespace, r.Key, window, d)
				}
			}
		}
	}
	if n := lim.Len(); n != 2*len(names) {
		t.Errorf("%d counters, want %d", n, 2*len(names))
	}
}

// What charges nothing leaves nothing behind.
func TestNoTrace(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r := keyed.Request{Namespace: "n", Key: "k", Limit: 2, Window: time.Second, Cost: keyed.Free}
	takeAfter(t, lim, 0, r)
	r.Cost = 3
	takeAfter(t, lim, 0, r)
	other := keyed.Request{Namespace: "n", Key: "other", Limit: 2, Window: time.Second, Cost: 1}
	if ds, err := lim.TakeAllAt(background, epoch, other, r); err != nil || !ds[0].OK || ds[1].OK || ds[0].Remaining != 2 {
		t.Errorf("%+v, %v", ds, err)
	}
	other.Cost = keyed.Free
	if ds, err := lim.TakeAllAt(background, epoch, other, other); err != nil || !ds[0].OK || !ds[1].OK {
		t.Errorf("%+v, %v", ds, err)
	}
	if n := lim.Len(); n != 0 {
		t.Errorf("%d counters, want none", n)
	}
}

// A refusal in a later cell does not move the counter there: the clock may go back.
func TestRefusalDoesNotRoll(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r := keyed.Request{Namespace: "n", Key: "k", Limit: 2, Window: 10 * time.Second, Cost: 1}
	takeAfter(t, lim, 0, r)
	free := r
	free.Cost = keyed.Free
	takeAfter(t, lim, 19*time.Second, free)
	if _, err := lim.PeekAt(background, epoch.Add(19*time.Second), r); err != nil {
		t.Error(err)
	}
	if d := takeAfter(t, lim, 0, r); !d.OK || d.Remaining != 0 {
		t.Errorf("%+v", d)
	}
}

func TestFarInstants(t *testing.T) {
	for _, now := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(-1, 999_999_999), time.Date(1600, 1, 1, 0, 0, 0, 7, time.UTC),
		time.Date(9999, 1, 1, 0, 0, 0, 7, time.UTC), time.Unix(1<<40, 5), time.Unix(-1<<40, 5),
	} {
		for _, window := range []time.Duration{time.Millisecond, time.Minute, 7777777, 400 * 24 * time.Hour} {
			lim := newLimiter(t, keyed.Options{})
			r := keyed.Request{Namespace: "n", Key: "k", Limit: 10, Window: window, Cost: 10}
			d, err := lim.TakeAt(background, now, r)
			if err != nil || !d.OK {
				t.Fatalf("%v, %v: %+v, %v", now, window, d, err)
			}
			if d, _ = lim.TakeAt(background, now, r); d.OK || d.RetryAfter <= 0 || d.RetryAfter > 2*window {
				t.Fatalf("%v, %v: %+v", now, window, d)
			}
			wait := d.RetryAfter
			if d, _ = lim.TakeAt(background, now.Add(wait-1), r); d.OK {
				t.Errorf("%v, %v: passes 1 ns before %v", now, window, wait)
			}
			if d, _ = lim.TakeAt(background, now.Add(wait), r); !d.OK {
				t.Errorf("%v, %v: does not pass after %v: %+v", now, window, wait, d)
			}
		}
	}
	for _, seconds := range []int64{math.MinInt64, math.MaxInt, math.MinInt64 / 1000, math.MaxInt / 1000} {
		lim := newLimiter(t, keyed.Options{})
		r := keyed.Request{Namespace: "n", Key: "k", Limit: 1, Window: time.Millisecond, Cost: 1}
		lim.TakeAt(background, time.Unix(seconds, 0), r)
		if d, _ := lim.TakeAt(background, time.Unix(seconds, 0), r); d.OK {
			t.Errorf("%d s: passes twice", seconds)
		}
	}
}

func TestClosed(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r := request("k")
	hold, _, err := lim.Hold(background, r)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := lim.Close(background); err != nil {
			t.Fatal(err)
		}
	}
	errs := map[string]error{}
	_, errs["take"] = lim.Take(background, r)
	_, errs["take many"] = lim.TakeAll(background, r, r)
	_, errs["take many of nothing"] = lim.TakeAll(background)
	_, _, errs["hold"] = lim.Hold(background, r)
	_, _, errs["hold many"] = lim.HoldAll(background, r)
	for call, err := range errs {
		if !errors.Is(err, keyed.ErrClosed) {
			t.Errorf("%s: error %v, want ErrClosed", call, err)
		}
	}
	hold.Commit(1)
}

// The same counter several times in a batch counts each time, in their order.
func TestBatchWithOneCounterTwice(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r := request("k") // 10 a minute
	three, four := r, r
	three.Cost, four.Cost = 3, 4
	ds, err := lim.TakeAllAt(background, epoch, three, four, four)
	if err != nil || !ds[0].OK || !ds[1].OK || ds[2].OK || !ds[2].Never || ds[0].Remaining != 10 {
		t.Fatalf("11 units at a limit of 10: %+v, %v", ds, err)
	}
	requests := []keyed.Request{three, four, three}
	kept := slices.Clone(requests)
	ds, err = lim.TakeAllAt(background, epoch, requests...)
	if err != nil || !ds[0].OK || !ds[1].OK || !ds[2].OK || ds[0].Remaining != 7 || ds[2].Remaining != 0 {
		t.Fatalf("10 units at a limit of 10: %+v, %v", ds, err)
	}
	if !slices.Equal(requests, kept) {
		t.Errorf("the requests became %+v", requests)
	}
	ds, err = lim.TakeAllAt(background, epoch.Add(30*time.Second), three, four)
	wait := max(ds[0].RetryAfter, ds[1].RetryAfter)
	if err != nil || ds[0].OK || ds[1].OK || wait <= ds[0].RetryAfter {
		t.Fatalf("%+v, %v", ds, err)
	}
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{{wait - 1, false}, {wait, true}} {
		ds, _ = lim.TakeAllAt(background, epoch.Add(30*time.Second+test.after), three, four)
		if got := ds[0].OK && ds[1].OK; got != test.want {
			t.Errorf("after %v of %v: passes is %v", test.after, wait, got)
		}
	}
	huge := keyed.Request{Namespace: "huge", Key: "k", Limit: math.MaxInt, Window: time.Minute, Cost: math.MaxInt}
	one := huge
	one.Cost = 1
	if ds, _ = lim.TakeAllAt(background, epoch, huge, one); ds[1].OK || !ds[1].Never || ds[1].Remaining != math.MaxInt {
		t.Errorf("a sum above the largest int: %+v", ds)
	}
}

func TestHold(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r := request("k") // 10 a minute
	r.Cost = 6
	hold, d, err := lim.HoldAt(background, epoch, r)
	if err != nil || !d.OK || d.Remaining != 4 || d.ResetAfter != 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	if d := takeAfter(t, lim, 3*time.Minute, r); d.OK || d.RetryAfter != 0 || d.Never {
		t.Errorf("three cells later, in the way of a Hold: %+v", d)
	}
	refused, d, _ := lim.HoldAt(background, epoch, r)
	if d.OK || refused != (keyed.Hold{}) {
		t.Errorf("%+v, %+v", refused, d)
	}
	refused.Commit(5) // has ended
	hold.CommitAt(epoch.Add(3*time.Minute), 12)
	hold.CommitAt(epoch.Add(3*time.Minute), 12)
	hold.Cancel()
	r.Cost = keyed.Free
	d = takeAfter(t, lim, 3*time.Minute, r)
	if d.OK || d.Remaining != 0 || d.RetryAfter != time.Minute+time.Minute*2/12-time.Minute/12+1 {
		t.Errorf("a peek at 12 of 10: %+v", d)
	}
	hold, d, _ = lim.HoldAt(background, epoch.Add(10*time.Minute), r)
	if !d.OK || hold == (keyed.Hold{}) {
		t.Fatalf("a hold of nothing: %+v", d)
	}
	hold.CommitAt(epoch.Add(10*time.Minute), -5)
	hold, _, _ = lim.HoldAt(background, epoch.Add(10*time.Minute), r)
	hold.CommitAt(epoch.Add(10*time.Minute), 7)
	if d := takeAfter(t, lim, 10*time.Minute, r); d.Remaining != 3 {
		t.Errorf("after a commit of 7: %+v", d)
	}
	holds, ds, err := lim.HoldAllAt(background, epoch.Add(10*time.Minute), request("k"), request("other"), request("k"))
	if err != nil || len(holds) != 3 || ds[2].Remaining != 1 || ds[1].Remaining != 9 {
		t.Fatalf("%+v, %v", ds, err)
	}
	holds[0].Cancel()
	holds[2].CommitAt(epoch.Add(10*time.Minute), 1)
	if d := takeAfter(t, lim, 10*time.Minute, r); d.Remaining != 2 {
		t.Errorf("after a cancel and a commit of 1: %+v", d)
	}
}
