package state

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// The fields of a quota that are numbers, in the order of an image. The first have the type int.
const (
	burstNumber  = int(Dimensions) + len(Adaptive)
	budgetNumber = burstNumber + 1
	allNumbers   = budgetNumber + len(Budgets)
)

// zoneBit is the bit of the zone among those of the fields. It stays between the first numbers and
// those that were added later, so that a quota without these has the same bytes in all versions.
const zoneBit = 14

func bitOf(number int) uint64 {
	if number < zoneBit {
		return 1 << number
	}
	return 1 << (number + 1)
}

func (q *Quota) numbers() (n [allNumbers]int64) {
	for d := range Dimensions {
		n[d] = int64(*q.Limit(d))
	}
	for i := range Adaptive {
		n[int(Dimensions)+i] = int64(*Adaptive[i].Of(q))
	}
	n[burstNumber] = int64(q.Burst)
	for i := range Budgets {
		n[budgetNumber+i] = Budgets[i].Of(*q)
	}
	return n
}

func (q *Quota) setNumbers(n *[allNumbers]int64) {
	for d := range Dimensions {
		*q.Limit(d) = int(n[d])
	}
	for i := range Adaptive {
		*Adaptive[i].Of(q) = int(n[int(Dimensions)+i])
	}
	q.Burst = time.Duration(n[burstNumber])
	for i := range Budgets {
		Budgets[i].Set(q, n[budgetNumber+i])
	}
}

// AppendImage appends the quota as bytes: which of its fields are not zero, and those.
func (q *Quota) AppendImage(to []byte) []byte {
	numbers, fields := q.numbers(), uint64(0)
	for i, n := range numbers {
		if n != 0 {
			fields |= bitOf(i)
		}
	}
	if q.DayZone != "" {
		fields |= 1 << zoneBit
	}
	to = wire.AppendUint(to, fields)
	for _, n := range numbers {
		if n != 0 {
			to = wire.AppendInt(to, n)
		}
	}
	if q.DayZone != "" {
		to = wire.AppendString(to, q.DayZone)
	}
	return to
}

// ReadQuota reads the image of a quota, which may be out of range. After an error it is zero.
func ReadQuota(r *wire.Reader) (q Quota) {
	fields := r.UpTo(1<<(allNumbers+1) - 1)
	var numbers [allNumbers]int64
	for i := range numbers {
		switch {
		case fields&bitOf(i) == 0:
			continue
		case i < burstNumber:
			numbers[i] = int64(r.Small(math.MinInt, math.MaxInt))
		default:
			numbers[i] = r.Int()
		}
		if numbers[i] == 0 {
			r.Fail("field of a quota that is zero")
		}
	}
	q.setNumbers(&numbers)
	if fields&(1<<zoneBit) != 0 {
		if q.DayZone = r.String(math.MaxInt); q.DayZone == "" {
			r.Fail("zone without a name")
		}
	}
	if r.Err() != nil {
		return Quota{}
	}
	return q
}

// AppendImage appends what was said as bytes.
func (s *Said) AppendImage(to []byte) []byte {
	var origins uint64
	for o, has := range s.has {
		if has {
			origins |= 1 << o
		}
	}
	to = wire.AppendUint(to, origins)
	for o, has := range s.has {
		if has {
			to = s.quotas[o].AppendImage(to)
		}
	}
	return to
}

// ReadSaid reads the image of what was said by some origins; anything of others is an error. After
// an error it is empty.
func ReadSaid(r *wire.Reader, by ...Origin) (s Said) {
	origins := r.UpTo(1<<Origins - 1)
	for o := range Origins {
		if origins&(1<<o) != 0 {
			s.Set(o, ReadQuota(r))
		}
	}
	if s.Only(by...) != s {
		r.Fail("quota of an origin that says none")
	}
	if r.Err() != nil {
		return Said{}
	}
	return s
}
