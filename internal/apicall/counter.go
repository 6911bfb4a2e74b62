package apicall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// TokenCounter has the fields of the exported token counters in the same order, so that they
// convert to it. It is safe for concurrent use while its fields stay as they are.
type TokenCounter struct {
	BaseURL string       // the address in front of /v1 or /v1beta; "" for the provider's
	APIKey  string       // goes out in a header, and is in no error
	Client  *http.Client // redirects are never followed; nil for the default transport
}

// Hide returns the text for a counter of a type of package ratelimit, without its key.
func (c TokenCounter) Hide(typ string) Hidden {
	return Hide("ratelimit."+typ, "BaseURL", c.BaseURL, "APIKey", c.APIKey)
}

// CountAPI is how a provider counts the tokens of a text.
type CountAPI struct {
	base   string
	path   func(model string) string
	header func(h http.Header, key string) // sets the key, where there is one
	body   func(model, text string) any
	total  string // the field of the reply
}

// CountTokens asks how many tokens text has for model. The error never holds the key.
func (c TokenCounter) CountTokens(ctx context.Context, api *CountAPI, model, text string) (int, error) {
	if strings.TrimSpace(model) == "" {
		return 0, errors.New("model is blank")
	}
	body, err := json.Marshal(api.body(model, text))
	if err != nil {
		return 0, err
	}
	address, err := Address(c.BaseURL, api.base, api.path(model))
	if err != nil {
		return 0, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	api.header(header, c.APIKey)
	reply, err := Call{
		Method: http.MethodPost, URL: address, Header: header, Body: body,
		Secrets: []string{c.APIKey}, Client: c.Client,
	}.Do(ctx)
	if err != nil {
		return 0, err
	}
	return parseTotal(reply, api.total)
}

// parseTotal reads the total in the field of a reply. Its errors contain no part of the reply.
func parseTotal(reply []byte, field string) (int, error) {
	// A struct would take the names in any case: "TOTALTOKENS" too.
	var fields map[string]json.RawMessage
	if json.Unmarshal(reply, &fields) != nil {
		return 0, errors.New("reply is not a JSON object")
	}
	var total *int
	if json.Unmarshal(fields[field], &total) != nil || total == nil || *total < 0 {
		return 0, fmt.Errorf("reply has no %s that is an integer of 0 or more", field)
	}
	return *total, nil
}
