package state

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Found is what was found of the limits of a model by being refused, as it is stored: see
// ModelQuota.AdaptiveFloorRPM. The zero value is nothing.
type Found struct {
	Rate  Search `json:"rate,omitzero"`  // in requests in 10^9 seconds
	Slots Search `json:"slots,omitzero"` // in thousandths of a call in flight
	At    int64  `json:"at"`             // when it was so, in UnixNano
	// Told reports that the headers of the provider say its limits of the minute, so the rate does
	// not apply.
	Told bool `json:"told,omitzero"`
	// Anew are the searches whose windows begin anew with an event, which change by it: RateAnew,
	// SlotsAnew, or both. A file has none.
	Anew int64 `json:"anew,omitzero"`
}

// The bits of Found.Anew.
const (
	RateAnew = 1 << iota
	SlotsAnew
)

// Search is where the search for a limit stands, as adaptive.SearchState.
type Search struct {
	Level   int64 `json:"level"`            // the limit; 0 where nothing was found
	Knee    int64 `json:"knee,omitzero"`    // where the provider last refused; 0 if that is not known
	Step    int64 `json:"step,omitzero"`    // the last one beyond the knee
	Raised  int64 `json:"raised,omitzero"`  // what the last clean window added
	Streak  int64 `json:"streak,omitzero"`  // refusals without a clean window between
	Lowered int64 `json:"lowered,omitzero"` // how long before At it was last lowered, in nanoseconds; 0 for never
}

// The bounds of the fields of Search. They leave room for sums and differences of two; whoever
// resumes a search brings it between the bounds of its quota.
const (
	MostLevel   int64 = 1 << 60
	MostStreak  int64 = math.MaxInt32
	MostLowered int64 = 1 << 61 // 73 years
)

// FoundLasts is how long stores that many processes share keep what was found of a model that
// nobody uses: after so many half-lives it has aged to the floor.
const FoundLasts = 72 * time.Hour

// FoundField is a number of Found.
type FoundField struct {
	Key         string // in a file
	Of          func(*Found) *int64
	Least, Most int64
}

// FoundFields are the numbers of Found, in the order of their keys in a file.
var FoundFields = []FoundField{
	{"rate_level", func(f *Found) *int64 { return &f.Rate.Level }, 0, MostLevel},
	{"rate_knee", func(f *Found) *int64 { return &f.Rate.Knee }, 0, MostLevel},
	{"rate_step", func(f *Found) *int64 { return &f.Rate.Step }, 0, MostLevel},
	{"rate_raised", func(f *Found) *int64 { return &f.Rate.Raised }, 0, MostLevel},
	{"rate_streak", func(f *Found) *int64 { return &f.Rate.Streak }, 0, MostStreak},
	{"rate_lowered", func(f *Found) *int64 { return &f.Rate.Lowered }, 0, MostLowered},
	{"slots_level", func(f *Found) *int64 { return &f.Slots.Level }, 0, MostLevel},
	{"slots_knee", func(f *Found) *int64 { return &f.Slots.Knee }, 0, MostLevel},
	{"slots_step", func(f *Found) *int64 { return &f.Slots.Step }, 0, MostLevel},
	{"slots_raised", func(f *Found) *int64 { return &f.Slots.Raised }, 0, MostLevel},
	{"slots_streak", func(f *Found) *int64 { return &f.Slots.Streak }, 0, MostStreak},
	{"slots_lowered", func(f *Found) *int64 { return &f.Slots.Lowered }, 0, MostLowered},
	{"at", func(f *Found) *int64 { return &f.At }, math.MinInt64, math.MaxInt64},
}

// ToldKey is the key of Found.Told in a file, where it is 0 or 1.
const ToldKey = "told"

// Check returns an error that names the field and its value if the limiter cannot have found it.
func (f *Found) Check() error {
	for _, field := range FoundFields {
		if n := *field.Of(f); n < field.Least || n > field.Most {
			return fmt.Errorf("%s is %d, want %d to %d", field.Key, n, field.Least, field.Most)
		}
	}
	if f.Anew < 0 || f.Anew > RateAnew|SlotsAnew {
		return fmt.Errorf("anew is %d, want 0 to %d", f.Anew, RateAnew|SlotsAnew)
	}
	return nil
}

// Age returns how old what was found is at now, in UnixNano. It is never negative: what is of the
// future is new.
func (f *Found) Age(now int64) time.Duration {
	if now <= f.At {
		return 0
	}
	if age := now - f.At; age > 0 {
		return time.Duration(age)
	}
	return math.MaxInt64
}

// FoundText returns what was found as databases and events store it.
func FoundText(f Found) string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // of integers
	}
	return string(text)
}

// ParseFound is the reverse of FoundText. The error names what is wrong with the text: a field that
// is not known is refused, because whoever does not know it would drop it silently.
func ParseFound(text string) (f Found, err error) {
	if err := DecodeStrictly(text, &f); err != nil {
		return Found{}, err
	}
	if err := f.Check(); err != nil {
		return Found{}, err
	}
	return f, nil
}

// DecodeStrictly decodes one JSON value. It refuses fields that are not known, and anything behind
// the value.
func DecodeStrictly(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one value: %.100q", text)
	}
	return nil
}
