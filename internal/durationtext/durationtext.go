// Package durationtext writes durations into JSON as people write them, such as "10s", and reads
// them again. The limiter's package uses it for the types that it makes public.
package durationtext

import (
	"encoding/json"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// Format returns a duration as text, such as "1m30s"; the empty text for zero.
func Format(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Parse returns the duration that Format wrote. The error names the field and the text. A number
// without a unit is an error, because nothing says what it counts; "0" and the empty text are zero.
func Parse(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`%s: %q is not a duration with its unit, such as "10s"`, field, errtext.Clip(text))
	}
	return d, nil
}

// Decode decodes a JSON object of the kind what into from, and the duration in its key, whose text
// is at text, into into. Where both succeed it calls take.
func Decode(data []byte, what string, from any, key string, text *string, into *time.Duration, take func()) (err error) {
	if err = json.Unmarshal(data, from); err == nil {
		*into, err = Parse(key, *text)
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", what, err)
	}
	take()
	return nil
}
