package ratelimit

import (
	"encoding/json"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/durationtext"
)

// The fields of types that have methods for JSON, without the methods.
type (
	quotaFields    ModelQuota
	decisionFields Decision
)

// quotaJSON and decisionJSON are what JSON shows: a duration as text.
type (
	quotaJSON struct {
		*quotaFields
		Burst string `json:"burst,omitempty"`
	}
	decisionJSON struct {
		*decisionFields
		RetryAfter string `json:"retry_after,omitempty"`
	}
)

// MarshalJSON returns an object with the keys of a YAML file: {"max_rpm":60,"burst":"10s"}. Fields
// that are zero are left out.
func (q ModelQuota) MarshalJSON() ([]byte, error) {
	return json.Marshal(quotaJSON{(*quotaFields)(&q), durationtext.Format(q.Burst)})
}

// UnmarshalJSON reads what MarshalJSON writes. A key that is missing leaves its field as it is,
// and an unknown one is ignored, as encoding/json does. Burst is a text with its unit; a number is
// an error. The error names the key and the value, and leaves q as it was. Limits are not checked:
// the constructors and SetQuota do that.
func (q *ModelQuota) UnmarshalJSON(data []byte) (err error) {
	is := *q
	from := quotaJSON{(*quotaFields)(&is), durationtext.Format(q.Burst)}
	if err = json.Unmarshal(data, &from); err == nil {
		is.Burst, err = durationtext.Parse("burst", from.Burst)
	}
	if err != nil {
		return fmt.Errorf("decode quota: %w", err)
	}
	*q = is
	return nil
}

// MarshalJSON returns an object with the fields of the decision. RetryAfter is a text, such as
// "1.5s", and is left out where it is zero.
func (d Decision) MarshalJSON() ([]byte, error) {
	return json.Marshal(decisionJSON{(*decisionFields)(&d), durationtext.Format(d.RetryAfter)})
}

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (d *Decision) UnmarshalJSON(data []byte) (err error) {
	is := *d
	from := decisionJSON{(*decisionFields)(&is), durationtext.Format(d.RetryAfter)}
	if err = json.Unmarshal(data, &from); err == nil {
		is.RetryAfter, err = durationtext.Parse("retry_after", from.RetryAfter)
	}
	if err != nil {
		return fmt.Errorf("decode decision: %w", err)
	}
	*d = is
	return nil
}
