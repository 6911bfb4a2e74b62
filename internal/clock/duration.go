package clock

import (
	"encoding/json"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// FormatDuration returns a duration as text, such as "1m30s"; the empty text for zero.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// parseDuration returns the duration that Format wrote. The error names the field and the text. A
// number without a unit is an error, because nothing says what it counts; "0" and the empty text
// are zero.
func parseDuration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`%s: %q is not a duration with its unit, such as "10s"`, field, errtext.Clip(text))
	}
	return d, nil
}

// DecodeDuration decodes a JSON object of the kind what into from, and the duration in its key,
// whose text is at text, into into. Where both succeed it calls take.
func DecodeDuration(data []byte, what string, from any, key string, text *string, into *time.Duration, take func()) (err error) {
	if err = json.Unmarshal(data, from); err == nil {
		*into, err = parseDuration(key, *text)
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", what, err)
	}
	take()
	return nil
}
