package settings

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
)

// Options are the fields of Config whose types admit values out of range, or that exclude each
// other. The zero value is in range.
type Options struct {
	Margin      time.Duration
	HoldTTL     time.Duration
	MaxQueue    int
	MaxModels   int
	LeaseTTL    time.Duration
	Durability  string
	AutoPersist AutoPersist

	Store, Shared     bool // are set
	FilePath, Backend string
}

// AutoPersist has the fields of the limiter's AutoPersist in the same order, so that one converts
// to the other.
type AutoPersist struct {
	Delay   time.Duration
	MaxWait time.Duration
}

// longestMargin bounds Config.Margin: 24 hours.
const longestMargin = 24 * time.Hour

// Validate returns an error that names the first field that is out of range, and its value.
func (o *Options) Validate() error {
	if o.Margin < 0 || o.Margin > longestMargin {
		return outOfRange("Margin", o.Margin, "0 to 24h")
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
			return outOfRange(field.name, field.value, "0 or more")
		}
	}
	switch o.Durability {
	case "", sqlitelog.DurableProcess, sqlitelog.DurablePower:
	default:
		return outOfRange("Durability", strconv.Quote(o.Durability),
			fmt.Sprintf("%q or %q", sqlitelog.DurableProcess, sqlitelog.DurablePower))
	}
	if err := o.AutoPersist.validate(); err != nil {
		return err
	}
	return o.checkStore()
}

// checkStore returns an error that names the fields beside Store of which one is too many.
func (o *Options) checkStore() error {
	if !o.Store {
		return nil
	}
	if o.Shared {
		return errors.New("fields Store and Shared are both set, want one of them")
	}
	for _, is := range [...]struct{ field, value string }{
		{"FilePath", o.FilePath}, {"Backend", o.Backend}, {"Durability", o.Durability},
	} {
		if is.value != "" {
			return fmt.Errorf("fields Store and %s %q are both set, want one of them", is.field, is.value)
		}
	}
	return nil
}

func (a AutoPersist) validate() error {
	switch {
	case a.Delay < 0:
		return outOfRange("AutoPersist.Delay", a.Delay, "0 or more")
	case a.MaxWait < 0:
		return outOfRange("AutoPersist.MaxWait", a.MaxWait, "0 or more")
	case a.MaxWait > 0 && a.MaxWait < a.Delay:
		return outOfRange("AutoPersist.MaxWait", a.MaxWait,
			fmt.Sprintf("0 or at least Delay, which is %v", a.Delay))
	}
	return nil
}

func outOfRange(field string, value any, want string) error {
	return fmt.Errorf("%s is %v, want %s", field, value, want)
}
