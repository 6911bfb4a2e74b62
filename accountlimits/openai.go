package accountlimits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/apicall"
)

// OpenAI reads the limits of a project at OpenAI, with the Admin API
// (https://developers.openai.com/api/reference/resources/organization/subresources/projects/subresources/rate_limits,
// read 2026-11-22). It is safe for concurrent use while its fields stay as they are.
type OpenAI struct {
	// AdminKey is a key of the Admin API (sk-admin-...). It is sent as the bearer token; empty
	// sends none. No error contains it.
	AdminKey string
	// Project is the ID (proj_...) of the project whose key makes the calls. It is required.
	Project string
	// BaseURL is the address in front of /v1, without query and fragment; it may end in /v1.
	// Empty means OpenAI's.
	BaseURL string
	// Client makes the calls, except that redirects are never followed. Nil uses the transport of
	// http.DefaultClient, with a time limit of 30 seconds for each page.
	Client *http.Client
}

func (o OpenAI) hidden() apicall.Hidden {
	return apicall.Hide("accountlimits.OpenAI", "Project", o.Project, "BaseURL", o.BaseURL, "AdminKey", o.AdminKey)
}

// Format prints the fields without the key, with any verb.
func (o OpenAI) Format(f fmt.State, verb rune) { o.hidden().Format(f, verb) }

// MarshalText returns what Format prints, so that no encoder writes the key.
func (o OpenAI) MarshalText() ([]byte, error) { return o.hidden().MarshalText() }

// Limits returns the limits of each model that the project may call: requests and tokens per
// minute and requests per day as MaxRPM, MaxTPM and MaxRPD. The limits of batches, images and audio
// are left out, as is a limit of zero, which a ModelQuota cannot express.
//
// Models that share limits at OpenAI each get all of them; see [Anthropic.Limits], which also tells
// when Limits fails. It fails for a blank Project, too.
func (o OpenAI) Limits(ctx context.Context) (map[string]ratelimit.ModelQuota, error) {
	found := make(limits)
	if err := o.read(ctx, found); err != nil {
		return nil, fmt.Errorf("read limits of OpenAI: %w", err)
	}
	return found, nil
}

func (o OpenAI) read(ctx context.Context, into limits) error {
	if strings.TrimSpace(o.Project) == "" {
		return errors.New("the field Project is blank")
	}
	from := api{
		base: o.BaseURL, provider: "https://api.openai.com",
		header: make(http.Header), secret: o.AdminKey, client: o.Client,
	}
	if o.AdminKey != "" {
		from.header.Set("Authorization", "Bearer "+o.AdminKey)
	}
	path := "/v1/organization/projects/" + url.PathEscape(o.Project) + "/rate_limits"
	return readPages(func(cursor string) (next string, err error) {
		query := url.Values{"limit": {"100"}}
		if cursor != "" {
			query.Set("after", cursor)
		}
		reply, err := from.get(ctx, path, query.Encode())
		if err != nil {
			return "", err
		}
		return parseOpenAI(reply, into)
	})
}

// openAIEntry is the limits of a model.
type openAIEntry struct {
	ID    string          `json:"id"`
	Model string          `json:"model"`
	RPM   json.RawMessage `json:"max_requests_per_1_minute"`
	TPM   json.RawMessage `json:"max_tokens_per_1_minute"`
	RPD   json.RawMessage `json:"max_requests_per_1_day"`
}

// parseOpenAI reads a page into limits and returns the cursor of the next one.
func parseOpenAI(reply []byte, into limits) (next string, err error) {
	var page struct {
		Data    *[]openAIEntry `json:"data"`
		HasMore bool           `json:"has_more"`
		LastID  string         `json:"last_id"`
	}
	if json.Unmarshal(reply, &page) != nil || page.Data == nil {
		return "", errNoList
	}
	for i, entry := range *page.Data {
		quota, err := entry.quota(i)
		if err != nil {
			return "", err
		}
		if err := into.add(entry.Model, quota); err != nil {
			return "", err
		}
	}
	if !page.HasMore {
		return "", nil
	}
	if page.LastID == "" && len(*page.Data) > 0 {
		page.LastID = (*page.Data)[len(*page.Data)-1].ID
	}
	if page.LastID == "" {
		return "", errors.New("reply has more pages and no last_id")
	}
	return page.LastID, nil
}

// quota returns the limits of the entry with an index in data.
func (e *openAIEntry) quota(index int) (q ratelimit.ModelQuota, err error) {
	for _, limit := range []struct {
		name string
		raw  json.RawMessage
		to   *int
	}{
		{"max_requests_per_1_minute", e.RPM, &q.MaxRPM},
		{"max_tokens_per_1_minute", e.TPM, &q.MaxTPM},
		{"max_requests_per_1_day", e.RPD, &q.MaxRPD},
	} {
		if *limit.to, err = figure(limit.raw, index, limit.name); err != nil {
			return q, err
		}
	}
	return q, nil
}
