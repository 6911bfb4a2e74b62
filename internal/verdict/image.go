package verdict

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// AppendImage appends the whole verdict.
func (v *Verdict) AppendImage(to []byte) []byte {
	var flags uint64
	for i, is := range [...]bool{v.Allowed, v.Never, v.OverBudget, v.Keeps, v.event} {
		if is {
			flags |= 1 << i
		}
	}
	to = wire.AppendUint(to, flags)
	for _, s := range [...]string{v.Code, v.Reason, v.Cause} {
		to = wire.AppendString(to, s)
	}
	to = wire.AppendUint(wire.AppendInt(to, int64(v.Retry)), uint64(v.Item))
	return wire.AppendInt(wire.AppendInt(to, v.wait), v.own)
}

// Read reads an image.
func Read(r *wire.Reader) (v Verdict) {
	flags := r.UpTo(1<<5 - 1)
	for i, is := range [...]*bool{&v.Allowed, &v.Never, &v.OverBudget, &v.Keeps, &v.event} {
		*is = flags&(1<<i) != 0
	}
	for _, s := range [...]*string{&v.Code, &v.Reason, &v.Cause} {
		*s = r.String(math.MaxInt)
	}
	v.Retry, v.Item = time.Duration(r.Int()), int(r.UpTo(math.MaxInt32))
	v.wait, v.own = r.Int(), r.Int()
	return v
}
