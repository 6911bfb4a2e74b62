package account

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Equivalent mutants of bucketsimage.go: bounds of instants and bursts, which only keep sums from
// overflowing, off by one.

// bucketsLife is a window whose changes several buckets follow, all in the same way.
type bucketsLife struct {
	buckets  []*buckets
	now      int64
	requests []int64
	tokens   []lifeCharge
}

type lifeCharge struct {
	at    int64
	count state.Count
}

func (l *bucketsLife) Requests() int         { return len(l.requests) }
func (l *bucketsLife) RequestAt(i int) int64 { return l.requests[i] }
func (l *bucketsLife) Tokens() int           { return len(l.tokens) }
func (l *bucketsLife) TokensAt(i int) (int64, state.Count) {
	return l.tokens[i].at, l.tokens[i].count
}

func (l *bucketsLife) each(follow func(b *buckets)) {
	for _, b := range l.buckets {
		follow(b)
	}
}

func someQuota(random *rand.Rand) paceQuota {
	q := paceQuota{Burst: time.Duration(random.Int64N(int64(time.Minute))), Sharers: random.IntN(4)}
	for u := range q.PerMinute {
		if random.IntN(3) > 0 {
			q.PerMinute[u] = 1 + random.IntN(2000)
		}
	}
	return q
}

func someCount(random *rand.Rand) state.Count {
	return state.Count{Input: random.IntN(300), Output: random.IntN(100)}
}

// step changes the window.
func (l *bucketsLife) step(random *rand.Rand) {
	l.now += random.Int64N(int64(2 * time.Second))
	switch what := random.IntN(16); {
	case what < 6:
		l.requests = append(l.requests, l.now)
		c := lifeCharge{l.now, someCount(random)}
		l.tokens = append(l.tokens, c)
		l.each(func(b *buckets) { b.PushRequest(l.now); b.PushTokens(l.now, c.count) })
	case what < 8 && len(l.tokens) > 0:
		i, c := random.IntN(len(l.tokens)), someCount(random)
		l.tokens[i].count = c
		l.each(func(b *buckets) { b.SetTokens(i, l.tokens[i].at, c) })
	case what == 8 && len(l.requests) > 0:
		i := random.IntN(len(l.requests))
		l.requests = slices.Delete(l.requests, i, i+1)
		l.each(func(b *buckets) { b.RemoveRequest(i) })
	case what == 9 && len(l.tokens) > 0:
		i := random.IntN(len(l.tokens))
		l.tokens = slices.Delete(l.tokens, i, i+1)
		l.each(func(b *buckets) { b.RemoveTokens(i) })
	case what < 12:
		l.insert(random, what == 10)
	case what == 12:
		l.drop(random)
	case what == 13 && random.IntN(5) == 0:
		q := someQuota(random)
		for i, was := range l.buckets {
			l.buckets[i] = newBuckets(q, l.now, Minute, l)
			l.buckets[i].Take(was, l.now, l)
		}
	}
}

// insert has a request and tokens arrive that were sent earlier.
func (l *bucketsLife) insert(random *rand.Rand, prepaid bool) {
	at, c := l.now-random.Int64N(Minute), someCount(random)
	i, _ := slices.BinarySearch(l.requests, at)
	l.requests = slices.Insert(l.requests, i, at)
	k, _ := slices.BinarySearchFunc(l.tokens, at, func(c lifeCharge, at int64) int { return cmp.Compare(c.at, at) })
	l.tokens = slices.Insert(l.tokens, k, lifeCharge{at, c})
	l.each(func(b *buckets) {
		if prepaid {
			b.InsertPrepaidRequest(i, at)
			b.InsertPrepaidTokens(k, at)
			return
		}
		b.InsertRequest(i, at)
		b.InsertTokens(k, at, c)
	})
}

// drop drops what is older than a minute, or half of a window of the present.
func (l *bucketsLife) drop(random *rand.Rand) {
	n, m := 0, 0
	for n < len(l.requests) && l.requests[n] < l.now-Minute {
		n++
	}
	for m < len(l.tokens) && l.tokens[m].at < l.now-Minute {
		m++
	}
	if random.IntN(8) == 0 {
		n, m = len(l.requests)/2, len(l.tokens)/2
	}
	l.requests, l.tokens = l.requests[n:], l.tokens[m:]
	l.each(func(b *buckets) { b.Drop(n, m) })
}

// answers is all that the buckets say.
func (l *bucketsLife) answers(b *buckets) string {
	var text strings.Builder
	for u := range unitCount {
		fmt.Fprintln(&text, b.Empty(u), b.Opens(u, 1, l.now), b.Opens(u, 500, l.now))
	}
	fmt.Fprintln(&text, b.Of(b.quota), b.Admit(1, state.Count{Input: 20, Output: 9}, l.now))
	for i := range max(len(l.requests), len(l.tokens)) {
		fmt.Fprint(&text, b.Priced(i, -1), b.Priced(-1, i))
	}
	return text.String()
}

// agree compares what all buckets say and are.
func (l *bucketsLife) agree(t *testing.T) {
	t.Helper()
	first := l.buckets[0]
	for _, b := range l.buckets[1:] {
		if got, want := l.answers(b), l.answers(first); got != want {
			t.Fatalf("the buckets that were read say\n%s\nwant\n%s", got, want)
		}
		if !bytes.Equal(b.AppendImage(nil), first.AppendImage(nil)) {
			t.Fatal("the images differ")
		}
	}
	if !first.Fits(len(l.requests), len(l.tokens)) {
		t.Fatalf("the buckets do not fit %d requests and %d tokens", len(l.requests), len(l.tokens))
	}
}

func bucketsOf(t *testing.T, image []byte) *buckets {
	t.Helper()
	r := wire.NewReader(image)
	b := readBuckets(r)
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	return b
}

// Buckets that were read go on as those that were written.
func TestBucketsImageGoesOn(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 30))
			l := &bucketsLife{now: random.Int64N(1 << 62)}
			l.buckets = []*buckets{newBuckets(someQuota(random), l.now, Minute, l), nil}
			for range 10 {
				l.buckets[1] = bucketsOf(t, l.buckets[0].AppendImage(nil))
				for range random.IntN(60) {
					l.agree(t)
					l.step(random)
				}
				l.agree(t)
			}
		})
	}
}

func TestBucketsImageOfNil(t *testing.T) {
	var none *buckets
	if b := bucketsOf(t, none.AppendImage(nil)); b != nil || !b.Fits(1, 2) {
		t.Errorf("nil is read as %+v", b)
	}
}

// The memory that dropped charges had is not in the image, nor is it read.
func TestBucketsImageIsOfWhatIsLeft(t *testing.T) {
	l := &bucketsLife{}
	b := newBuckets(paceQuota{PerMinute: [unitCount]int{100_000, 100_000}, Burst: time.Second}, 0, Minute, l)
	for i := range int64(1000) {
		b.PushRequest(i * 1e6)
		b.PushTokens(i*1e6, state.Count{Input: 1})
	}
	if n := len(b.AppendImage(nil)); n > 20_000 {
		t.Errorf("1000 requests and tokens take %d bytes, want 20 for each at most", n)
	}
	b.Drop(1000, 1000)
	if n := len(b.AppendImage(nil)); n > 70 {
		t.Errorf("empty buckets take %d bytes", n)
	}
}

func TestReadBucketsRefuses(t *testing.T) {
	l := &bucketsLife{requests: []int64{10}, tokens: []lifeCharge{{10, state.Count{}}}}
	limits := [unitCount]int{unitRequests: 60, unitTokens: 60, unitInput: 60}
	valid := newBuckets(paceQuota{PerMinute: limits}, 20, Minute, l)
	for _, tt := range []struct {
		name, want string
		change     func(b *buckets)
	}{
		{"nothing", "", func(*buckets) {}},
		{"a negative burst", "number out of range", func(b *buckets) { b.quota.Burst = -1 }},
		{"negative sharers", "number out of range", func(b *buckets) { b.quota.Sharers = -1 }},
		{"negative places", "number out of range", func(b *buckets) { b.pricedTokens = -1 }},
		{"a carry of a whole price", "number out of range", func(b *buckets) { b.buckets[unitRequests].carry = 60 }},
		{"a carry without a limit", "number out of range", func(b *buckets) { b.buckets[unitOutput].carry = 1 }},
		{"a bucket of no time", "number out of range", func(b *buckets) { b.buckets[unitOutput].Reset(1<<62 + 1) }},
		{"an instant of no time", "number out of range", func(b *buckets) { b.buckets[unitRequests].Set(0, 1<<62+1, 0, time.Minute) }},
		{"instants out of order", "number out of range", func(b *buckets) { b.PushRequest(9) }},
		{"a cost of more than a minute", "number out of range", func(b *buckets) { b.buckets[unitRequests].Push(10, time.Hour, time.Hour) }},
		{"tokens that are prepaid in part", "prepaid in part", func(b *buckets) { b.buckets[unitInput].Set(0, 10, 0, bottomless) }},
		{"tokens that are not all prepaid", "prepaid in part", func(b *buckets) { b.buckets[unitTokens].Set(0, 10, 0, bottomless) }},
	} {
		b := bucketsOf(t, valid.AppendImage(nil))
		tt.change(b)
		r := wire.NewReader(b.AppendImage(nil))
		got := readBuckets(r)
		if err := fmt.Sprint(r.End()); (got == nil) != (tt.want != "") || tt.want != "" && !strings.Contains(err, tt.want) {
			t.Errorf("%s: %v, %s, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestBucketsFit(t *testing.T) {
	l := &bucketsLife{requests: []int64{1, 2}, tokens: []lifeCharge{{1, state.Count{}}}}
	limited := newBuckets(paceQuota{PerMinute: [unitCount]int{unitRequests: 60, unitOutput: 60}}, 9, Minute, l)
	taken := newBuckets(paceQuota{PerMinute: [unitCount]int{unitRequests: 60}}, 9, Minute, l)
	taken.Take(limited, 9, l)
	for _, tt := range []struct {
		name             string
		b                *buckets
		requests, tokens int
		want             bool
	}{
		{"as many", limited, 2, 1, true},
		{"more requests", limited, 3, 1, false},
		{"fewer requests", limited, 1, 1, false},
		{"more tokens", limited, 2, 2, false},
		{"as many under another quota", taken, 2, 1, true},
		{"fewer requests under another quota", taken, 1, 1, false},
		{"fewer tokens, which are not limited, than came under another quota", taken, 2, 0, false},
		{"more tokens, which are not limited", taken, 2, 7, true},
	} {
		if got := tt.b.Fits(tt.requests, tt.tokens); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// No bytes panic, nor what is read from them. What is accepted is what is written for it.
func FuzzReadBuckets(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 30))
	for range 20 {
		l := &bucketsLife{}
		l.buckets = []*buckets{newBuckets(someQuota(random), 0, Minute, l)}
		for range 20 {
			l.step(random)
		}
		f.Add(l.buckets[0].AppendImage(nil), random.Uint64())
	}
	f.Fuzz(func(t *testing.T, image []byte, seed uint64) {
		r := wire.NewReader(image)
		b := readBuckets(r)
		if r.End() != nil {
			return
		}
		if again := b.AppendImage(nil); !bytes.Equal(again, image) {
			t.Fatalf("%x are accepted, and written as %x", image, again)
		}
		if b == nil || b.pricedRequests > 100 || b.pricedTokens > 100 {
			return
		}
		l := &bucketsLife{buckets: []*buckets{b, bucketsOf(t, image)}, now: int64(b.buckets[unitRequests].Empty())}
		l.requests = make([]int64, b.pricedRequests)
		for _, u := range b.limited(unitRequests, unitTokens) {
			l.requests = slices.Concat(l.requests, make([]int64, b.buckets[u].Len()))
		}
		l.tokens = make([]lifeCharge, b.pricedTokens)
		if limited := b.limited(unitTokens, unitCount); len(limited) > 0 {
			l.tokens = slices.Concat(l.tokens, make([]lifeCharge, b.buckets[limited[0]].Len()))
		}
		random := rand.New(rand.NewPCG(seed, 0))
		for range 50 {
			l.step(random)
		}
		l.agree(t)
	})
}
