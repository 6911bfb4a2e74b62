package sharedlog

import (
	"encoding/json"
	"errors"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// QuotaText returns the Text of a Quota event.
func QuotaText(q state.Quota) string { return text(q) }

// ParseQuota is the reverse of QuotaText. The error names what is wrong with the text: a field that
// is not known is refused, because the limits of this process would not be those of the others. A
// zone that is not known here is no error: another machine may know it.
func ParseQuota(text string) (q state.Quota, err error) {
	if err = state.DecodeStrictly(text, &q); err != nil {
		return state.Quota{}, err
	}
	if reason, bad := q.Invalid(); bad {
		return state.Quota{}, errors.New(reason)
	}
	return q, nil
}

// Saying is what a Quota event says of the quota of its model: what one of the origins, the program
// or the account, says from then on. In events of versions that do not know origins the program
// says what holds.
type Saying struct {
	Holds  state.Quota // that holds after it
	Origin state.Origin
	Is     state.Quota
	Gone   bool // nothing any more, in place of Is
}

// sayingText is the Text of a Saying, unless the program says what holds.
type sayingText struct {
	state.Quota
	Origin string       `json:",omitempty"` // its key; "" for the program
	Is     *state.Quota `json:",omitempty"` // nil for nothing any more
}

// Text returns the Text of the event.
func (s *Saying) Text() string {
	if s.Origin == state.Program && s.Is == s.Holds && !s.Gone {
		return QuotaText(s.Holds)
	}
	full := sayingText{Quota: s.Holds, Origin: state.OriginKeys[s.Origin]}
	if !s.Gone {
		full.Is = &s.Is
	}
	return text(full)
}

// ParseSaying is the reverse of Text. The error names what is wrong with the text, as that of
// ParseQuota does.
func ParseSaying(text string) (s Saying, err error) {
	var full sayingText
	if err = state.DecodeStrictly(text, &full); err != nil {
		return s, err
	}
	if reason, bad := full.Quota.Invalid(); bad {
		return s, errors.New(reason)
	}
	s.Holds, s.Is = full.Quota, full.Quota
	if full.Origin == "" {
		return s, nil
	}
	var known bool
	if s.Origin, known = state.OriginOf(full.Origin); !known || s.Origin > state.Account {
		return s, fmt.Errorf("a quota of the origin %q", errtext.Clip(full.Origin))
	}
	if s.Gone = full.Is == nil; s.Gone {
		s.Is = state.Quota{}
	} else if reason, bad := full.Is.Invalid(); bad {
		return s, fmt.Errorf("%s: %s", full.Origin, reason)
	} else {
		s.Is = *full.Is
	}
	return s, nil
}

// After returns what is said of a model after the event, of what was said before it.
func (s *Saying) After(said state.Said) state.Said {
	if s.Gone {
		said.Drop(s.Origin)
	} else {
		said.Set(s.Origin, s.Is)
	}
	return said
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

	Class string `json:",omitempty"`
	Flow  string `json:",omitempty"`
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
