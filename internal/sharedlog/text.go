package sharedlog

import (
	"encoding/json"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// QuotaText returns the Text of a Quota event.
func QuotaText(q state.Quota) string { return text(q) }

// ParseQuota is the reverse of QuotaText. The error names what is wrong with the text. A zone
// that is not known here is no error: another machine may know it.
func ParseQuota(text string) (q state.Quota, err error) {
	if err = json.Unmarshal([]byte(text), &q); err != nil {
		return state.Quota{}, err
	}
	for of := range state.Dimensions {
		if limit := *q.Limit(of); limit < 0 {
			return state.Quota{}, fmt.Errorf("%s is %d", state.Limits[of].Key, limit)
		}
	}
	if q.Burst < 0 {
		return state.Quota{}, fmt.Errorf("%s is %d", state.BurstKey, q.Burst)
	}
	return q, nil
}

// saidText is the Text of a Quota event that also says who said the quota. A version that does not
// know origins reads the quota alone.
type saidText struct {
	state.Quota
	Said state.Said
}

// SaidText returns the Text of a Quota event for a model of which the processes say something from
// then on, as the program and the account; q is the quota that holds, for versions that do not know
// origins, and before is what they said until then. Where they say nothing any more, the quota is
// taken back.
func SaidText(q state.Quota, said, before state.Said) string {
	if said == state.SaidBy(state.Program, q) && !before.Has(state.Account) {
		return QuotaText(q)
	}
	return text(saidText{q, said})
}

// ParseSaid returns what the Text of a Quota event says of its model: the quota that holds, and
// what the program and the account say. In an event of a version that does not know origins, the
// program says the quota, and the account the same as before.
func ParseSaid(text string, before state.Said) (q state.Quota, said state.Said, err error) {
	var full struct{ Said *state.Said }
	if q, err = ParseQuota(text); err != nil {
		return q, said, err
	}
	if err = json.Unmarshal([]byte(text), &full); err != nil {
		return q, said, err
	}
	if full.Said != nil {
		return q, full.Said.Only(state.Program, state.Account), nil
	}
	said = before.Only(state.Account)
	said.Set(state.Program, q)
	return q, said, nil
}

// NumbersText returns the Text of a ReleaseAll event.
func NumbersText(numbers []int64) string { return text(numbers) }

// ParseNumbers is the reverse of NumbersText.
func ParseNumbers(text string) (numbers []int64, err error) {
	err = json.Unmarshal([]byte(text), &numbers)
	return numbers, err
}

// Request is a planned call for which a waiter waits: the limiter's Request. The names of its
// fields are stored and must stay as they are.
type Request struct {
	Model        string // the name under which it is counted
	PromptTokens int
	OutputTokens int
}

// RequestsText returns the Text of a Wait event.
func RequestsText(requests []Request) string { return text(requests) }

// ParseRequests is the reverse of RequestsText.
func ParseRequests(text string) (requests []Request, err error) {
	err = json.Unmarshal([]byte(text), &requests)
	return requests, err
}

// text returns a value of strings and integers as JSON, which cannot fail.
func text(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
