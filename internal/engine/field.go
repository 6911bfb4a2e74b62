package engine

import (
	"maps"
	"math"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// The bounds of what commands carry.
const (
	longestSpan  = int64(24*time.Hour + time.Minute) // of a charge of the minute: see By.Span
	longestHold  = int64(1) << 61                    // see By.HoldTTL
	mostRequests = 4096                              // that pass together
	mostOptions  = 256                               // of a waiter
	longestDay   = int64(49 * time.Hour)             // a zone that crosses the date line has days of 48 hours
	longestMonth = int64(34 * 24 * time.Hour)
)

func appendTokens(to []byte, c state.Count) []byte {
	return wire.AppendInt(wire.AppendInt(to, int64(c.Input)), int64(c.Output))
}

// readTokens reads an estimate, which may be negative.
func readTokens(r *wire.Reader) state.Count {
	return state.Count{Input: r.Small(math.MinInt, math.MaxInt), Output: r.Small(math.MinInt, math.MaxInt)}
}

// readUsed reads tokens that were used.
func readUsed(r *wire.Reader) state.Count {
	return state.Count{Input: r.Small(0, math.MaxInt), Output: r.Small(0, math.MaxInt)}
}

func appendMoney(to []byte, m money.Amount) []byte { return wire.AppendInt(to, int64(m)) }

func readMoney(r *wire.Reader) money.Amount { return money.Amount(r.Within(0, math.MaxInt64)) }

func appendID(to []byte, id account.ID) []byte {
	return wire.AppendInt(wire.AppendInt(wire.AppendInt(to, id.Process), id.N), int64(id.Place))
}

func readID(r *wire.Reader) account.ID {
	return account.ID{Process: r.Int(), N: r.Int(), Place: int32(r.Within(0, mostRequests-1))}
}

func appendSpan(to []byte, s account.Span) []byte {
	return wire.AppendInt(wire.AppendInt(to, s.Begin), s.End)
}

func readSpan(r *wire.Reader) account.Span { return account.Span{Begin: r.Int(), End: r.Int()} }

func appendStrings(to []byte, all []string) []byte {
	to = wire.AppendUint(to, uint64(len(all)))
	for _, s := range all {
		to = wire.AppendString(to, s)
	}
	return to
}

func readString(r *wire.Reader) string { return r.String(math.MaxInt) }

func readStrings(r *wire.Reader) []string {
	all := make([]string, r.Count(math.MaxInt, 1))
	for i := range all {
		all[i] = readString(r)
	}
	return all
}

// appendNamed appends a map in the order of its keys.
func appendNamed[V any](to []byte, all map[string]V, value func(to []byte, v V) []byte) []byte {
	to = wire.AppendUint(to, uint64(len(all)))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		to = value(wire.AppendString(to, name), all[name])
	}
	return to
}

func readNamed[V any](r *wire.Reader, value func(*wire.Reader) V) map[string]V {
	n, last := r.Count(math.MaxInt, 2), ""
	all := make(map[string]V)
	for i := range n {
		name := readString(r)
		if i > 0 && name <= last {
			r.Fail("name out of order")
		}
		if r.Err() != nil {
			return nil
		}
		last, all[name] = name, value(r)
	}
	return all
}

func appendQuota(to []byte, q state.Quota) []byte { return q.AppendImage(to) }

// Name is a model as a caller asks for it, and as it is counted.
type Name struct{ Asked, Counted string }

func (n Name) append(to []byte) []byte {
	to = wire.AppendString(to, n.Counted)
	if to = wire.AppendBool(to, n.Asked != n.Counted); n.Asked != n.Counted {
		to = wire.AppendString(to, n.Asked)
	}
	return to
}

// readName reads the name of a model or a pool.
func readName(r *wire.Reader) Name {
	n := Name{Counted: readString(r)}
	if n.Asked = n.Counted; r.Bool() {
		if n.Asked = readString(r); n.Asked == n.Counted {
			r.Fail("name that is there twice")
		}
	}
	return n
}

// readModel reads the name of a model.
func readModel(r *wire.Reader) Name {
	n := readName(r)
	if !n.isModel() {
		r.Fail("name that is not of a model")
	}
	return n
}

// isModel reports whether the name can be that of a model.
func (n Name) isModel() bool { return state.ModelName(n.Counted) == n.Counted }
