// Claims about allocations, memory and what an Exchange may say, each tried from outside.

package keyed_test

import (
	"context"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
)

type claimExchange struct{ rows []keyed.Row }

func (x *claimExchange) Push(context.Context, []keyed.Row) error { return nil }

func (x *claimExchange) Pull(_ context.Context, cursor string) ([]keyed.Row, string, error) {
	if cursor != "" {
		return nil, cursor, nil
	}
	return x.rows, "1", nil
}

// Rows that no region can have counted change nothing.
func TestClaimLyingExchange(t *testing.T) {
	for _, count := range []int64{-5, math.MinInt64} {
		for _, region := range []string{"us", "eu", ""} {
			synctest.Test(t, func(t *testing.T) {
				cell := keyed.Cell{Namespace: "chat", Key: "k", Window: time.Hour, Sequence: time.Now().UnixNano() / int64(time.Hour)}
				x := &claimExchange{rows: []keyed.Row{{Cell: cell, Region: region, Count: count}, {Region: "us", Count: 3}, {Cell: keyed.Cell{Window: -1}, Region: "us", Count: 3}}}
				l := claimNew(t, keyed.Options{Exchange: x, Region: "eu"})
				l.Take(t.Context(), claimReq("k", 10, time.Hour, 1))
				time.Sleep(3 * time.Second)
				if d, _ := l.Take(t.Context(), claimReq("k", 10, time.Hour, 5)); !d.OK || d.Remaining != 4 {
					t.Errorf("%d of %q: %+v", count, region, d)
				}
				time.Sleep(time.Hour)
				if d, _ := l.Take(t.Context(), claimReq("k", 10, time.Hour, 4)); !d.OK {
					t.Errorf("%d of %q: %+v", count, region, d)
				}
				l.Close(t.Context())
			})
		}
	}
}

func TestClaimAllocations(t *testing.T) {
	l := claimNew(t, keyed.Options{})
	ctx := context.Background()
	long := make([]byte, 200)
	for _, key := range []string{"k", string(long)} {
		r := claimReq(key, math.MaxInt, time.Hour, 1)
		l.Take(ctx, r)
		if n := testing.AllocsPerRun(1000, func() { l.Take(ctx, r) }); n > 0 {
			t.Errorf("allow: %v", n)
		}
		r.Limit = 1
		if n := testing.AllocsPerRun(1000, func() { l.Take(ctx, r) }); n > 0 {
			t.Errorf("deny: %v", n)
		}
	}
}

// Keys come and go: what stays is three windows of them, without a call of Len.
func TestClaimResidency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := claimNew(t, keyed.Options{})
		ctx := t.Context()
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		key := make([]byte, 8)
		for i := range 300_000 / racetest.Factor {
			for b := range key {
				key[b] = byte(i>>(4*b))&15 + 'a'
			}
			l.Take(ctx, claimReq(string(key), 10, time.Second, 1))
			time.Sleep(time.Millisecond)
		}
		if grown := int64(heap()) - int64(before); grown > 3000*1000 {
			t.Errorf("%d bytes for 3,000 keys of the last three windows", grown)
		}
		if n := l.Len(); n > 3000 {
			t.Error(n)
		}
	})
}
