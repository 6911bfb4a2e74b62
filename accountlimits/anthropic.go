package accountlimits

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/apicall"
)

// Anthropic reads the limits of an organization or a workspace at Anthropic, with the Rate Limits
// API (https://platform.claude.com/docs/en/manage-claude/rate-limits-api, as of 2026-09-26, read
// 2026-11-22). It is safe for concurrent use while its fields stay as they are.
type Anthropic struct {
	// AdminKey is a key of the Admin API (sk-ant-admin...), which accounts of individuals do not
	// have. It is sent in the header x-api-key; empty sends none. No error contains it.
	AdminKey string
	// BaseURL is the address in front of /v1, without query and fragment; it may end in /v1.
	// Empty means Anthropic's.
	BaseURL string
	// Workspace is the ID (wrkspc_...) of the workspace whose key makes the calls: its limits are
	// read, too, and count where they are lower. Empty is for the default workspace, which has
	// no limits of its own.
	Workspace string
	// Client makes the calls, except that redirects are never followed. Nil uses the transport of
	// http.DefaultClient, with a time limit of 30 seconds for each page.
	Client *http.Client
}

func (a Anthropic) hidden() apicall.Hidden {
	return apicall.Hide("accountlimits.Anthropic", "Workspace", a.Workspace, "BaseURL", a.BaseURL, "AdminKey", a.AdminKey)
}

// Format prints the fields without the key, with any verb.
func (a Anthropic) Format(f fmt.State, verb rune) { a.hidden().Format(f, verb) }

// MarshalText returns what Format prints, so that no encoder writes the key.
func (a Anthropic) MarshalText() ([]byte, error) { return a.hidden().MarshalText() }

// Limits returns the limits of each model and alias that the organization may call: requests,
// input tokens and output tokens per minute as MaxRPM, MaxITPM and MaxOTPM. Other limits, such as
// those of batches and of the fast mode, are left out, as is a limit of zero, which a ModelQuota
// cannot express.
//
// The models of a group share one set of limits at Anthropic, and each of them gets all of it here.
// Give the models of a group that a program calls at the same time one name, with Config.Aliases.
//
// Limits fails when a call does (with the error of ctx, where that has ended); for a status other
// than 200; and for a reply that is not as documented, exceeds 1 MiB a page, 100 pages or 10,000
// models, or states a limit that is no integer from 0 to 2^40.
func (a Anthropic) Limits(ctx context.Context) (map[string]ratelimit.ModelQuota, error) {
	found := make(limits)
	err := a.read(ctx, "/v1/organizations/rate_limits", found)
	if err != nil {
		return nil, fmt.Errorf("read limits of Anthropic: %w", err)
	}
	if a.Workspace == "" {
		return found, nil
	}
	// This has only what differs from the organization.
	err = a.read(ctx, "/v1/organizations/workspaces/"+url.PathEscape(a.Workspace)+"/rate_limits", found)
	if err != nil {
		return nil, fmt.Errorf("read limits of Anthropic: workspace %q: %w", a.Workspace, err)
	}
	return found, nil
}

func (a Anthropic) read(ctx context.Context, path string, into limits) error {
	from := api{
		base: a.BaseURL, provider: "https://api.anthropic.com",
		header: http.Header{"Anthropic-Version": {"2023-06-01"}},
		secret: a.AdminKey, client: a.Client,
	}
	if a.AdminKey != "" {
		from.header.Set("x-api-key", a.AdminKey)
	}
	return readPages(func(cursor string) (next string, err error) {
		query := ""
		if cursor != "" {
			query = url.Values{"page": {cursor}}.Encode()
		}
		reply, err := from.get(ctx, path, query)
		if err != nil {
			return "", err
		}
		return parseAnthropic(reply, into)
	})
}

// anthropicEntry is a group of models, or of other things, that shares limits.
type anthropicEntry struct {
	GroupType string   `json:"group_type"` // models are in model_group
	Models    []string `json:"models"`     // every ID and alias
	Limits    []struct {
		Type  string          `json:"type"`
		Value json.RawMessage `json:"value"`
	} `json:"limits"`
}

// parseAnthropic reads a page into limits and returns the cursor of the next one.
func parseAnthropic(reply []byte, into limits) (next string, err error) {
	var page struct {
		Data     *[]anthropicEntry `json:"data"`
		NextPage string            `json:"next_page"`
	}
	if json.Unmarshal(reply, &page) != nil || page.Data == nil {
		return "", errNoList
	}
	for i, entry := range *page.Data {
		if entry.GroupType != "model_group" && entry.GroupType != "" {
			continue
		}
		quota, err := entry.quota(i)
		if err != nil {
			return "", err
		}
		for _, model := range entry.Models {
			if err := into.add(model, quota); err != nil {
				return "", err
			}
		}
	}
	return page.NextPage, nil
}

// quota returns the limits of the entry with an index in data.
func (e *anthropicEntry) quota(index int) (q ratelimit.ModelQuota, err error) {
	for _, limit := range e.Limits {
		var to *int
		switch limit.Type {
		case "requests_per_minute":
			to = &q.MaxRPM
		case "input_tokens_per_minute", "input_tokens_per_minute_cache_aware":
			to = &q.MaxITPM // the second is not documented; other clients of the API read it
		case "output_tokens_per_minute":
			to = &q.MaxOTPM
		default:
			continue
		}
		n, err := figure(limit.Value, index, limit.Type)
		if err != nil {
			return q, err
		}
		*to = lowest(*to, n)
	}
	return q, nil
}
