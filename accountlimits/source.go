// Package accountlimits reads the rate limits that providers have set for an account, from their
// APIs, and keeps a limiter by them, so that no program has to repeat figures that change with the
// account's tier.
//
//	go accountlimits.Sync(ctx, rl, time.Hour,
//		accountlimits.OpenAI{AdminKey: openAIAdminKey, Project: "proj_abc"},
//		accountlimits.Anthropic{AdminKey: anthropicAdminKey})
//
// What the program itself says of a model (Config.Quotas, SetQuota) wins over the account's limits;
// see [ratelimit.RateLimiter]. The admin key that OpenAI and Anthropic want is another one than
// that of the calls to models, and may change more than limits; OpenRouter takes any key of the
// account.
// A key goes out in one header, no error holds it, and redirects are never followed.
package accountlimits

import (
	"context"
	"net/http"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/apicall"
)

// Source reads the limits of an account. Limits returns them by the names of the models; a field
// of zero is a limit that the account does not state. It ends when ctx does, and is called by one
// goroutine at a time for each time that [Sync] was given the Source. Where its error, or one that
// this wraps, has a method RetryAfter() time.Duration, Sync waits at least as long before it asks
// again.
type Source interface {
	Limits(ctx context.Context) (map[string]ratelimit.ModelQuota, error)
}

// api is an API and how to be let in there.
type api struct {
	base, provider string // base URLs: the user's, and the one where that is empty
	header         http.Header
	secret         string
	client         *http.Client
}

// get returns the reply of a path with a query.
func (a api) get(ctx context.Context, path, query string) ([]byte, error) {
	address, err := apicall.Address(a.base, a.provider, path)
	if err != nil {
		return nil, err
	}
	if query != "" {
		address += "?" + query
	}
	return apicall.Call{
		URL: address, Header: a.header, Secrets: []string{a.secret}, Client: a.client,
	}.Do(ctx)
}
