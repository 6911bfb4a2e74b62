package state_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// setField gives a field of a quota the n-th of some values, of which the first is zero.
func setField(q *state.Quota, field, n int) {
	f := reflect.ValueOf(q).Elem().Field(field)
	if f.Kind() == reflect.String {
		f.SetString([...]string{"", "UTC", "a\xff", "long/zone"}[n])
		return
	}
	f.SetInt([...]int64{0, 1, math.MinInt32, math.MaxInt32 - int64(field)}[n])
}

// Each field of a quota, alone and beside others, comes back from its image.
func TestQuotaImage(t *testing.T) {
	fields := reflect.TypeFor[state.Quota]().NumField()
	seen := make(map[string]state.Quota)
	check := func(q state.Quota) {
		t.Helper()
		data := q.AppendImage(nil)
		if other, twice := seen[string(data)]; twice && other != q {
			t.Errorf("%+v and %+v have the same image", q, other)
		}
		seen[string(data)] = q
		r := wire.NewReader(data)
		if got := state.ReadQuota(r); got != q || r.End() != nil {
			t.Errorf("%+v is read as %+v, %v", q, got, r.Err())
		}
		for n := range data {
			r := wire.NewReader(data[:n])
			if got := state.ReadQuota(r); r.Err() == nil || got != (state.Quota{}) {
				t.Errorf("the first %d bytes of %+v are read as %+v", n, q, got)
			}
		}
	}
	var all state.Quota
	check(all)
	for field := range fields {
		for n := 1; n < 4; n++ {
			var q state.Quota
			setField(&q, field, n)
			check(q)
			setField(&q, (field+n)%fields, 1)
			check(q)
		}
		setField(&all, field, 3)
		check(all)
	}
	check(state.Quota{Burst: math.MinInt64, MaxSpendPerMonth: math.MaxInt64})
}

func TestSaidImage(t *testing.T) {
	var s state.Said
	for o := range state.Origins {
		s.Set(o, state.Quota{MaxRPM: int(o)}) // the first is zero, and said
		r := wire.NewReader(s.AppendImage(nil))
		if got := state.ReadSaid(r, state.Program, state.Account, state.File, state.Profile, state.Learned); got != s || r.End() != nil {
			t.Errorf("%s is read as %s, %v", s.Text(), got.Text(), r.Err())
		}
		r = wire.NewReader(s.AppendImage(nil))
		if got := state.ReadSaid(r, state.Account, state.File, state.Profile, state.Learned); r.Err() == nil || !got.IsEmpty() {
			t.Errorf("%s is read where the program does not say anything", got.Text())
		}
	}
}

func FuzzQuotaImage(f *testing.F) {
	f.Add([]byte("\x00"))
	f.Add((&state.Quota{MaxRPM: 1, DayZone: "UTC", MaxSpendPerDay: 5}).AppendImage(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := wire.NewReader(data)
		q := state.ReadQuota(r)
		if again := q.AppendImage(nil); r.End() == nil && !bytes.Equal(again, data) {
			t.Errorf("%q are read, and written as %q", data, again)
		}
	})
}
