package keyed

import (
	"context"
	"math"
	"testing"
	"time"
	"unsafe"
)

// An entry fills two cache lines of a 64-bit machine, and a bucket one.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("a 32-bit machine")
	}
	if size := unsafe.Sizeof(entry{}); size != 128 {
		t.Errorf("an entry has %d bytes, want 128", size)
	}
	if size := unsafe.Sizeof(bucket{}); size != 64 {
		t.Errorf("a bucket has %d bytes, want 64", size)
	}
	if size := unsafe.Sizeof(shard{}); size%64 != 0 {
		t.Errorf("a shard has %d bytes, want whole cache lines", size)
	}
}

// The state that a goroutine has read before it fell asleep does not come back, even with equal
// counts: its compare-and-swap fails after a roll, a hold, and an eviction.
func TestStaleWordFails(t *testing.T) {
	ctx, start := context.Background(), time.Unix(1_700_000_000, 0)
	r := Request{Namespace: "n", Key: "k", Limit: 10, Window: time.Second, Cost: 1}
	for _, test := range []struct {
		name string
		then func(l *Limiter)
	}{
		{"roll", func(l *Limiter) {
			for i := range 1000 {
				l.TakeAt(ctx, start.Add(time.Duration(i)*2*time.Second), r)
			}
		}},
		{"hold", func(l *Limiter) {
			h, _, _ := l.HoldAt(ctx, start, r)
			h.Cancel()
		}},
		{"eviction", func(l *Limiter) {
			other := r
			other.Key = "other"
			l.TakeAt(ctx, start, other)
		}},
	} {
		l, err := New(Options{MaxKeys: 1})
		if err != nil {
			t.Fatal(err)
		}
		l.TakeAt(ctx, start, r)
		e := l.find(&r)
		stale := e.word.Load()
		test.then(l)
		if e.word.CompareAndSwap(stale, stale+2) {
			t.Errorf("%s: charged on a stale state", test.name)
		}
	}
}

// A total wraps at 2^63 and nobody notices.
func TestTotalWraps(t *testing.T) {
	ctx, start := context.Background(), time.Unix(1_700_000_000, 0)
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Namespace: "n", Key: "k", Limit: math.MaxInt/2 + 1, Window: time.Second, Cost: 1}
	l.TakeAt(ctx, start, r)
	e := l.find(&r)
	e.lock()
	e.base.Store(units - 3) // 3 units before the end
	e.word.Store((units-2)<<1 | busy)
	e.unlock()
	for i := range 10 {
		if d, _ := l.TakeAt(ctx, start, r); !d.OK || d.Remaining != r.Limit-i-2 {
			t.Fatalf("take %d: %+v", i, d)
		}
	}
}

// What is on hold stays apart from what is merged: hold 3 on 5, merge 10, cancel leaves 10.
func TestImportsAndHolds(t *testing.T) {
	ctx, start := context.Background(), time.Unix(1_700_000_000, 0)
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Namespace: "n", Key: "k", Limit: 10, Window: time.Second, Cost: 5}
	l.TakeAt(ctx, start, r)
	r.Cost = 3
	h, d, _ := l.HoldAt(ctx, start, r)
	if !d.OK || d.Remaining != 2 {
		t.Fatalf("%+v", d)
	}
	e := l.find(&r)
	merge := func(others int64) {
		e.lock()
		defer e.unlock()
		if e.ledger == nil {
			e.ledger = &ledger{}
		}
		e.importLocked(others, 0)
	}
	merge(5) // 10 with the 5 of this process
	h.Cancel()
	if d, _ := l.TakeAt(ctx, start, r); d.OK || d.Remaining != 0 {
		t.Errorf("%+v, want a refusal at a count of 10", d)
	}
	e.lock()
	defer e.unlock()
	if c := e.countsLocked(); c != (counts{current: 10}) || e.ownLocked() != 5 {
		t.Errorf("%+v, own %d, want a current count of 10, of which 5 are own", c, e.ownLocked())
	}
}

// Lookups find every entry through growth, removal and shrinking.
func TestTable(t *testing.T) {
	s := &shard{}
	s.init()
	l := &Limiter{}
	request := func(i int) *Request {
		return &Request{Namespace: "n", Key: string(rune('a'+i%26)) + time.Duration(i).String(), Window: time.Second}
	}
	hash := func(i int) uint64 { // many collide
		return uint64(i%7)<<56 | uint64(i%13)<<16
	}
	var entries []*entry
	for i := range 3000 {
		e := l.newEntry(&visit{Request: *request(i), hash: hash(i)}, &instant{})
		entries = append(entries, e)
		s.addLocked(e)
	}
	check := func(from int) {
		t.Helper()
		for i, e := range entries {
			want := e
			if i < from {
				want = nil
			}
			if got := s.table.Load().find(hash(i), request(i)); got != want {
				t.Fatalf("entry %d: found %p, want %p", i, got, want)
			}
		}
	}
	check(0)
	for i := range 2990 {
		for at, d := range s.queue {
			if d.entry == entries[i] {
				s.removeLocked(at)
				break
			}
		}
		if i%500 == 499 || i > 2980 {
			check(i + 1)
		}
	}
	if n := len(s.table.Load().buckets); n > 16 {
		t.Errorf("%d buckets for 10 entries", n)
	}
}
