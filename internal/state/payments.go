package state

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/money"
)

// Payments is what was spent at times, as a text, so that it is comparable: the times in UnixNano,
// in order, and the micro-dollars of each, with commas between. The zero value is none. As a change
// it may have negative ones.
type Payments string

// PaymentsOf returns the text of what was spent, by the time.
func PaymentsOf(spent map[int64]money.Amount) Payments {
	n := make([]int64, 0, 2*len(spent))
	for _, at := range slices.Sorted(maps.Keys(spent)) {
		if spent[at] != 0 {
			n = append(n, at, int64(spent[at]))
		}
	}
	return paymentsOf(n)
}

func paymentsOf(n []int64) Payments {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // of integers
	}
	return Payments(strings.Trim(string(text), "[]"))
}

// Spent returns what was spent, by the time; nothing for a text that is of no payments.
func (p Payments) Spent() map[int64]money.Amount {
	var n []int64
	if DecodeStrictly("["+string(p)+"]", &n) != nil || len(n)%2 != 0 {
		return nil
	}
	spent := make(map[int64]money.Amount)
	for i := 0; i < len(n); i += 2 {
		spent[n[i]] = money.Amount(n[i+1])
	}
	return spent
}

var errPayments = errors.New("recent is no list of times and micro-dollars")

func (p Payments) check(change bool) error {
	spent := p.Spent()
	for _, is := range spent {
		if is < 0 && !change {
			return errPayments
		}
	}
	if PaymentsOf(spent) != p {
		return errPayments
	}
	return nil
}

// Add adds a change, and drops what no longer counts beside the last payment.
func (p *Payments) Add(change Payments) {
	spent, last := p.Spent(), int64(math.MinInt64)
	for at, more := range change.Spent() {
		spent[at] = max(spent[at].Add(more), 0)
	}
	for at, is := range spent {
		if is > 0 {
			last = max(last, at)
		}
	}
	maps.DeleteFunc(spent, func(at int64, _ money.Amount) bool { return uint64(last)-uint64(at) > uint64(11*time.Minute) })
	*p = PaymentsOf(spent)
}

// less returns the change that makes before p.
func (p Payments) less(before Payments) Payments {
	spent := p.Spent()
	for at, was := range before.Spent() {
		spent[at] = spent[at].Sub(was)
	}
	return PaymentsOf(spent)
}

// lasts reports whether one still counts at a time.
func (p Payments) lasts(wall int64) bool {
	for at := range p.Spent() {
		if at > wall-int64(10*time.Minute) {
			return true
		}
	}
	return false
}
