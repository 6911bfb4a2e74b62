package state

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/money"
)

// PaymentsLast is how long payments are kept, in nanoseconds: ten minutes, and up to one for those
// that count them with a margin.
const PaymentsLast = int64(11 * time.Minute)

// Payments is what was spent at times, in order. It is bytes in a string, so that it is comparable:
// of each the time in UnixNano and the micro-dollars. The zero value is none. As a change it may
// have negative ones.
type Payments string

const paymentSize = 16

// Payment is what was spent at a time.
type Payment struct {
	At    int64
	Spent money.Amount
}

// PaymentsOf returns payments in order, those of a time as one. It may change the slice.
func PaymentsOf(all []Payment) Payments {
	slices.SortFunc(all, func(a, b Payment) int { return cmp.Compare(a.At, b.At) })
	to := make([]byte, 0, len(all)*paymentSize)
	for i, p := range all {
		if i+1 < len(all) && all[i+1].At == p.At {
			all[i+1].Spent = p.Spent.Add(all[i+1].Spent)
		} else if p.Spent != 0 {
			to = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(to, uint64(p.At)), uint64(p.Spent))
		}
	}
	return Payments(to)
}

// All returns the payments.
func (p Payments) All() []Payment {
	all := make([]Payment, len(p)/paymentSize)
	from := []byte(p)
	for i := range all {
		at := from[i*paymentSize:]
		all[i] = Payment{int64(binary.BigEndian.Uint64(at)), money.Amount(binary.BigEndian.Uint64(at[8:]))}
	}
	return all
}

// numbers returns the times and the micro-dollars of each, in turns.
func (p Payments) numbers() (n []int64) {
	for _, is := range p.All() {
		n = append(n, is.At, int64(is.Spent))
	}
	return n
}

// Text returns those numbers with commas between, as files have them.
func (p Payments) Text() string { return strings.Trim(numbersText(p.numbers()), "[]") }

// ParsePayments is the reverse of Text.
func ParsePayments(text string) (Payments, error) {
	var n []int64
	if DecodeStrictly("["+text+"]", &n) != nil {
		return "", errPayments
	}
	return paymentsFrom(n, false)
}

var errPayments = errors.New("recent is no list of times and micro-dollars")

// paymentsFrom is the reverse of numbers, for payments that may be a change.
func paymentsFrom(n []int64, change bool) (Payments, error) {
	var all []Payment
	for of := range slices.Chunk(n, 2) {
		if len(of) < 2 || of[1] < 0 && !change {
			return "", errPayments
		}
		all = append(all, Payment{of[0], money.Amount(of[1])})
	}
	p := PaymentsOf(all)
	if !slices.Equal(p.numbers(), n) {
		return "", errPayments
	}
	return p, nil
}

// Add adds a change, and drops what no longer counts beside the last payment.
func (p *Payments) Add(change Payments) {
	if change == "" {
		return
	}
	all := PaymentsOf(append(p.All(), change.All()...)).All()
	all = slices.DeleteFunc(all, func(p Payment) bool { return p.Spent < 0 })
	if n := len(all); n > 0 {
		last := all[n-1].At
		all = slices.DeleteFunc(all, func(p Payment) bool { return uint64(last)-uint64(p.At) > uint64(PaymentsLast) })
	}
	*p = PaymentsOf(all)
}

// less returns the change that makes before p.
func (p Payments) less(before Payments) Payments {
	if p == before {
		return "" // as mostly, soon
	}
	all := p.All()
	for _, was := range before.All() {
		all = append(all, Payment{was.At, money.Amount(0).Sub(was.Spent)})
	}
	return PaymentsOf(all)
}

// lasts reports whether one still counts at a time.
func (p Payments) lasts(wall int64) bool {
	last := p[max(len(p)-paymentSize, 0):].All()
	return len(last) > 0 && last[0].At > wall-PaymentsLast
}
