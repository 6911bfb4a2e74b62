package settings

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sqlitelog"
)

// Options are the fields of Config whose types admit values out of range. The zero value is in
// range.
type Options struct {
	Margin      time.Duration
	HoldTTL     time.Duration
	MaxQueue    int
	MaxModels   int
	LeaseTTL    time.Duration
	Durability  string
	AutoPersist AutoPersist
}

// AutoPersist has the fields of the limiter's AutoPersist in the same order, so that one converts
// to the other.
type AutoPersist struct {
	Delay   time.Duration
	MaxWait time.Duration
}

// longestMargin bounds Config.Margin: 24 hours.
const longestMargin = time.Duration(sqlitelog.LongestSpan) - time.Minute

// Validate returns an error that names the first field that is out of range, and its value.
func (o *Options) Validate() error {
	if o.Margin < 0 || o.Margin > longestMargin {
		return fmt.Errorf("Margin is %v, want 0 to 24h", o.Margin)
	}
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"HoldTTL", int64(o.HoldTTL)},
		{"MaxQueue", int64(o.MaxQueue)},
		{"MaxModels", int64(o.MaxModels)},
		{"LeaseTTL", int64(o.LeaseTTL)},
	} {
		if field.value < 0 {
			return fmt.Errorf("%s is %d, want 0 or more", field.name, field.value)
		}
	}
	switch o.Durability {
	case "", sqlitelog.DurableProcess, sqlitelog.DurablePower:
	default:
		return fmt.Errorf("Durability is %q, want %q or %q", o.Durability,
			sqlitelog.DurableProcess, sqlitelog.DurablePower)
	}
	return o.AutoPersist.validate()
}

func (a AutoPersist) validate() error {
	switch {
	case a.Delay < 0:
		return fmt.Errorf("AutoPersist.Delay is %v, want 0 or more", a.Delay)
	case a.MaxWait < 0:
		return fmt.Errorf("AutoPersist.MaxWait is %v, want 0 or more", a.MaxWait)
	case a.MaxWait > 0 && a.MaxWait < a.Delay:
		return fmt.Errorf("AutoPersist.MaxWait is %v, want 0 or at least Delay, which is %v", a.MaxWait, a.Delay)
	}
	return nil
}
