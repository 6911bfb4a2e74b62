package accountlimits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/apicall"
)

// OpenRouter reads the limits of an account at OpenRouter for its free models, with the API of the
// key (https://openrouter.ai/docs/client-sdks/typescript/models/freemodeldailyrequests.md, read
// 2026-11-27). It is safe for concurrent use while its fields stay as they are.
type OpenRouter struct {
	// Key is any key of the account, such as that of its calls: no key of an admin API is needed.
	// It is sent as the bearer token; empty sends none. No error contains it.
	Key string
	// BaseURL is the address in front of /v1, without query and fragment; it may end in /v1.
	// Empty means OpenRouter's.
	BaseURL string
	// Client makes the call, except that redirects are never followed. Nil uses the transport of
	// http.DefaultClient, with a time limit of 30 seconds.
	Client *http.Client
}

func (o OpenRouter) hidden() apicall.Hidden {
	return apicall.Hide("accountlimits.OpenRouter", "BaseURL", o.BaseURL, "Key", o.Key)
}

// Format prints the fields without the key, with any verb.
func (o OpenRouter) Format(f fmt.State, verb rune) { o.hidden().Format(f, verb) }

// MarshalText returns what Format prints, so that no encoder writes the key.
func (o OpenRouter) MarshalText() ([]byte, error) { return o.hidden().MarshalText() }

// FreeModels is the pattern of the models for which OpenRouter limits an account.
const FreeModels = "*:free"

// freeRPM is what OpenRouter allows every account in a minute. Its API does not report it
// (https://openrouter.ai/docs/api_reference/limits, read 2026-10-17).
const freeRPM = 20

// Limits returns the limits of [FreeModels]: the requests per day of UTC that the account may make,
// as MaxRPD, and the 20 per minute that each account may, as MaxRPM. It returns none where the
// account has none, or the reply does not tell. Other models have the limits of the provider that
// OpenRouter sends a call to.
//
// All free models together share these limits at OpenRouter, and each of them gets all of them
// here. A program that calls several gives the limits to a pool, as in the example. What is left
// of the day is not read. [Anthropic.Limits] tells when Limits fails.
func (o OpenRouter) Limits(ctx context.Context) (map[string]ratelimit.ModelQuota, error) {
	found, err := o.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read limits of OpenRouter: %w", err)
	}
	return found, nil
}

func (o OpenRouter) read(ctx context.Context) (limits, error) {
	from := api{
		base: o.BaseURL, provider: "https://openrouter.ai/api",
		header: make(http.Header), secret: o.Key, client: o.Client,
	}
	if o.Key != "" {
		from.header.Set("Authorization", "Bearer "+o.Key)
	}
	reply, err := from.get(ctx, "/v1/key", "")
	if err != nil {
		return nil, err
	}
	return parseOpenRouter(reply)
}

var errNoKey = errors.New("reply is not a JSON object with an object named data, as documented")

// parseOpenRouter returns the limits in a reply.
func parseOpenRouter(reply []byte) (limits, error) {
	var key struct {
		Data *struct {
			Free struct {
				Limit json.RawMessage `json:"limit"`
			} `json:"free_model_daily_requests"`
		} `json:"data"`
	}
	if json.Unmarshal(reply, &key) != nil || key.Data == nil {
		return nil, errNoKey
	}
	perDay, err := integer(key.Data.Free.Limit)
	if err != nil {
		return nil, fmt.Errorf("reply: data.free_model_daily_requests.limit %w", err)
	}
	if perDay == 0 {
		return limits{}, nil
	}
	return limits{FreeModels: {MaxRPM: freeRPM, MaxRPD: perDay, DayZone: "UTC"}}, nil
}
