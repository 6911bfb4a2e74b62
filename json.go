package ratelimit

import (
	"encoding/json"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// The fields of types that have methods for JSON, without the methods.
type (
	quotaFields    ModelQuota
	decisionFields Decision
	explainFields  Explanation
	waiterFields   Waiter
	refusedFields  Refused
)

// What JSON shows: a duration as text.
type (
	quotaJSON struct {
		*quotaFields
		Burst string `json:"burst,omitempty"`
	}
	decisionJSON struct {
		*decisionFields
		RetryAfter string `json:"retry_after,omitempty"`
	}
	explainJSON struct {
		*explainFields
		OldestOpen string `json:"oldest_open,omitempty"`
	}
	waiterJSON struct {
		*waiterFields
		Waited string `json:"waited,omitempty"`
	}
	refusedJSON struct {
		*refusedFields
		RetryAfter string `json:"retry_after,omitempty"`
	}
)

// MarshalJSON returns an object with the keys of a YAML file: {"max_rpm":60,"burst":"10s"}. Fields
// that are zero are left out.
func (q ModelQuota) MarshalJSON() ([]byte, error) {
	return json.Marshal(quotaJSON{(*quotaFields)(&q), clock.FormatDuration(q.Burst)})
}

// UnmarshalJSON reads what MarshalJSON writes. A key that is missing leaves its field as it is,
// and an unknown one is ignored, as encoding/json does. Burst is a text with its unit; a number is
// an error. The error names the key and the value, and leaves q as it was. Limits are not checked:
// the constructors and SetQuota do that.
func (q *ModelQuota) UnmarshalJSON(data []byte) (err error) {
	is := *q
	from := quotaJSON{(*quotaFields)(&is), clock.FormatDuration(q.Burst)}
	return clock.DecodeDuration(data, "quota", &from, "burst", &from.Burst, &is.Burst, func() { *q = is })
}

// MarshalJSON returns an object with the fields of the decision. RetryAfter is a text, such as
// "1.5s", and is left out where it is zero.
func (d Decision) MarshalJSON() ([]byte, error) {
	return json.Marshal(decisionJSON{(*decisionFields)(&d), clock.FormatDuration(d.RetryAfter)})
}

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (d *Decision) UnmarshalJSON(data []byte) (err error) {
	is := *d
	from := decisionJSON{(*decisionFields)(&is), clock.FormatDuration(d.RetryAfter)}
	return clock.DecodeDuration(data, "decision", &from, "retry_after", &from.RetryAfter, &is.RetryAfter, func() { *d = is })
}

// MarshalJSON returns an object with the fields of the explanation. OldestOpen is a text, such as
// "42s", and is left out where it is zero.
func (e Explanation) MarshalJSON() ([]byte, error) {
	return json.Marshal(explainJSON{(*explainFields)(&e), clock.FormatDuration(e.OldestOpen)})
}

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (e *Explanation) UnmarshalJSON(data []byte) (err error) {
	is := *e
	from := explainJSON{(*explainFields)(&is), clock.FormatDuration(e.OldestOpen)}
	return clock.DecodeDuration(data, "explanation", &from, "oldest_open", &from.OldestOpen, &is.OldestOpen, func() { *e = is })
}

// MarshalJSON returns an object with the fields of the waiter. Waited is a text, such as "1.5s",
// and is left out where it is zero.
func (w Waiter) MarshalJSON() ([]byte, error) {
	return json.Marshal(waiterJSON{(*waiterFields)(&w), clock.FormatDuration(w.Waited)})
}

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (w *Waiter) UnmarshalJSON(data []byte) (err error) {
	is := *w
	from := waiterJSON{(*waiterFields)(&is), clock.FormatDuration(w.Waited)}
	return clock.DecodeDuration(data, "waiter", &from, "waited", &from.Waited, &is.Waited, func() { *w = is })
}

// MarshalJSON returns an object with the fields of the refusal. RetryAfter is a text, such as
// "1.5s", and is left out where it is zero.
func (r Refused) MarshalJSON() ([]byte, error) {
	return json.Marshal(refusedJSON{(*refusedFields)(&r), clock.FormatDuration(r.RetryAfter)})
}

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (r *Refused) UnmarshalJSON(data []byte) (err error) {
	is := *r
	from := refusedJSON{(*refusedFields)(&is), clock.FormatDuration(r.RetryAfter)}
	return clock.DecodeDuration(data, "refusal", &from, "retry_after", &from.RetryAfter, &is.RetryAfter, func() { *r = is })
}
