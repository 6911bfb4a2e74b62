package money

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ServiceTier is the class of service that a provider bills at prices of its own. The zero value is
// one that is not known; in a Rate it stands for all of them.
type ServiceTier int8

// The tiers.
const (
	Standard ServiceTier = iota + 1 // what a provider calls standard or default
	Batch
	Flex
	Priority
	tierCount
)

var tierNames = [tierCount]string{"", "standard", "batch", "flex", "priority"}

// TierOf returns the tier that an answer of a provider names, as OpenAI and Anthropic do in
// service_tier; 0 for a name that is not known, and for "auto", which says what was asked for and
// not what was served. OpenAI calls priority fast, too.
func TierOf(name string) ServiceTier {
	switch name {
	case "default":
		return Standard
	case "fast":
		return Priority
	}
	for tier := Standard; tier < tierCount; tier++ {
		if tierNames[tier] == name {
			return tier
		}
	}
	return 0
}

// String returns "standard", "batch", "flex" or "priority"; "" for the zero value.
func (t ServiceTier) String() string {
	if t >= 0 && t < tierCount {
		return tierNames[t]
	}
	return "ServiceTier(" + strconv.Itoa(int(t)) + ")"
}

// MarshalText returns what String does.
func (t ServiceTier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what TierOf knows. It fails for any other text, and changes nothing then.
func (t *ServiceTier) UnmarshalText(text []byte) error {
	tier := TierOf(string(text))
	if tier == 0 && len(text) > 0 {
		return fmt.Errorf("service tier %.64q, want standard, batch, flex or priority", text)
	}
	*t = tier
	return nil
}

// DayTime is a time of the day in UTC, in minutes since midnight. As text it is 16:30.
type DayTime int16

const dayMinutes DayTime = 24 * 60

// String returns the time as 16:30.
func (d DayTime) String() string { return fmt.Sprintf("%02d:%02d", int(d)/60, int(d)%60) }

// MarshalText returns what String does.
func (d DayTime) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a time such as 16:30. It fails for any other text, and changes nothing then.
func (d *DayTime) UnmarshalText(text []byte) error {
	at, err := time.Parse("15:04", string(text))
	if err != nil || len(text) != len("15:04") {
		return fmt.Errorf("time of day %.64q, want one such as 16:30", text)
	}
	*d = DayTime(at.Hour()*60 + at.Minute())
	return nil
}

// dayTimeOf returns the time of the day at a moment.
func dayTimeOf(at time.Time) DayTime {
	at = at.UTC()
	return DayTime(at.Hour()*60 + at.Minute())
}

// Rate is what the tokens of some calls cost in place of the prices of Price: of those above a
// size, of a service tier, at some hours, or of all these together. Its prices are for a million
// tokens, and a zero one means what it means in Price. The zero Rate is none.
type Rate struct {
	// Above has the rate hold for calls with more input tokens than this, those of the cache
	// included. All tokens of such a call cost what the rate says. Zero is any size.
	Above int `yaml:"above,omitempty" json:"above,omitempty"`
	// ServiceTier is the one that the rate holds for. Zero is all of them.
	ServiceTier ServiceTier `yaml:"service_tier,omitempty" json:"service_tier,omitzero"`
	// From and Until are the hours of the day, in UTC, in which a call is to be admitted for the
	// rate to hold: from From on, and before Until, which may be on the next day. Where they are
	// equal, the rate holds all day.
	From  DayTime `yaml:"from,omitempty" json:"from,omitzero"`
	Until DayTime `yaml:"until,omitempty" json:"until,omitzero"`

	Input          Amount `yaml:"input,omitempty" json:"input,omitempty"`
	CachedInput    Amount `yaml:"cached_input,omitempty" json:"cached_input,omitempty"`
	CacheWrite     Amount `yaml:"cache_write,omitempty" json:"cache_write,omitempty"`
	CacheWriteHour Amount `yaml:"cache_write_hour,omitempty" json:"cache_write_hour,omitempty"`
	Output         Amount `yaml:"output,omitempty" json:"output,omitempty"`
}

// holds reports whether the rate is that of a call.
func (r *Rate) holds(input int, tier ServiceTier, at DayTime) bool {
	return input > r.Above && (r.ServiceTier == 0 || r.ServiceTier == tier) && r.holdsAt(at)
}

func (r *Rate) holdsAt(at DayTime) bool {
	switch {
	case r.From == r.Until:
		return true
	case r.From < r.Until:
		return r.From <= at && at < r.Until
	}
	return r.From <= at || at < r.Until
}

func (r *Rate) validate() error {
	switch {
	case r.Above < 0:
		return fmt.Errorf("%s is negative: %d", "Above (above)", r.Above)
	case r.ServiceTier < 0 || r.ServiceTier >= tierCount:
		return fmt.Errorf("%s is none: %d", "ServiceTier (service_tier)", r.ServiceTier)
	case r.From < 0 || r.From >= dayMinutes:
		return fmt.Errorf("%s is no time of a day: %d", "From (from)", r.From)
	case r.Until < 0 || r.Until > dayMinutes:
		return fmt.Errorf("%s is no time of a day: %d", "Until (until)", r.Until)
	}
	for _, field := range [...]struct {
		name  string
		value Amount
	}{
		{"Input (input)", r.Input}, {"CachedInput (cached_input)", r.CachedInput},
		{"CacheWrite (cache_write)", r.CacheWrite}, {"CacheWriteHour (cache_write_hour)", r.CacheWriteHour},
		{"Output (output)", r.Output},
	} {
		if field.value < 0 {
			return fmt.Errorf("%s is negative: %v", field.name, field.value)
		}
	}
	return nil
}

// kinds returns what each kind of input costs.
func (r *Rate) kinds() (cached, written, hour Amount) {
	if cached = r.CachedInput; cached == 0 {
		cached = r.Input
	}
	if written = r.CacheWrite; written == 0 {
		written = r.Input
	}
	if hour = r.CacheWriteHour; hour == 0 {
		hour = written
	}
	return cached, written, hour
}

func (r *Rate) cost(u *Usage) Amount {
	cached, written, hour := r.kinds()
	var c cost
	c.add(r.Input, u.Input)
	c.add(cached, u.CachedInput)
	c.add(written, u.CacheWrite)
	c.add(hour, u.CacheWriteHour)
	c.add(r.Output, u.Output)
	return c.roundedUp()
}

// most returns the most that so many tokens cost, whichever of the input is cached.
func (r *Rate) most(input, output int) Amount {
	cached, written, hour := r.kinds()
	var c cost
	c.add(max(r.Input, cached, written, hour), input)
	c.add(r.Output, output)
	return c.roundedUp()
}

// Rates are the rates of a price. Those that are used stand before the others. They are a list in
// YAML and JSON.
type Rates [8]Rate

// IsZero reports whether there are none.
func (r Rates) IsZero() bool { return r[0] == Rate{} }

// used returns those that are used.
func (r *Rates) used() []Rate {
	n := 0
	for n < len(r) && r[n] != (Rate{}) {
		n++
	}
	return r[:n]
}

func (r *Rates) set(list []Rate) error {
	if len(list) > len(r) {
		return fmt.Errorf("%d rates, more than %d", len(list), len(r))
	}
	clear(r[copy(r[:], list):])
	return nil
}

func (r *Rates) validate() error {
	n := len(r.used())
	for i := range r {
		if i > n && r[i] != (Rate{}) {
			return fmt.Errorf("%s[%d] (rates) is empty, and there are others behind it", "Rates", n)
		}
		if err := r[i].validate(); err != nil {
			return fmt.Errorf("%s[%d] (rates): %w", "Rates", i, err)
		}
	}
	return nil
}

// MarshalJSON returns the list of rates that are used.
func (r Rates) MarshalJSON() ([]byte, error) { return json.Marshal(r.used()) }

// UnmarshalJSON reads a list. It fails for more rates than there is room for, and for keys that are
// not known, and changes nothing then.
func (r *Rates) UnmarshalJSON(text []byte) error {
	var list []Rate
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return err
	}
	return r.set(list)
}

// MarshalYAML returns the list of rates that are used.
func (r Rates) MarshalYAML() (any, error) { return r.used(), nil }

// UnmarshalYAML reads a list. It fails for more rates than there is room for, and changes nothing
// then.
func (r *Rates) UnmarshalYAML(read func(any) error) error {
	var list []Rate
	if err := read(&list); err != nil {
		return err
	}
	return r.set(list)
}
