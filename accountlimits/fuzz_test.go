package accountlimits

import (
	"encoding/json"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
)

// checkParsed checks what a parser made of a reply: a limit only from a list, none out of range,
// no name that is a pattern, and no word of the reply in an error.
func checkParsed(t *testing.T, reply []byte, found limits, err error) {
	t.Helper()
	if err != nil {
		for _, start := range []string{
			errNoList.Error(), errTooLarge.Error(), "reply: data[", "reply has more pages and no last_id",
		} {
			if strings.HasPrefix(err.Error(), start) {
				return
			}
		}
		t.Errorf("%q: %v", reply, err)
		return
	}
	var object map[string]any
	if json.Unmarshal(reply, &object) != nil {
		t.Errorf("%q was read", reply)
	}
	for model, q := range found {
		if !validName(model) || q == (ratelimit.ModelQuota{}) {
			t.Errorf("%q: %q has %v", reply, model, q)
		}
		for _, n := range []int{q.MaxRPM, q.MaxTPM, q.MaxRPD, q.MaxITPM, q.MaxOTPM} {
			if n < 0 || int64(n) > maxFigure {
				t.Errorf("%q: %q has %v", reply, model, q)
			}
		}
	}
}

func FuzzAnthropicLimits(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `{}`, `{"data":null}`, `{"data":[]}`, `{"data":[null]}`, `{"data":[{}],"next_page":"p"}`, `{"data":[],"next_page":7}`,
		`{"data":[{"type":"rate_limit","group_type":"model_group","models":["a","b"],"limits":[{"type":"requests_per_minute","value":4000},` +
			`{"type":"input_tokens_per_minute","value":10},{"type":"input_tokens_per_minute_cache_aware","value":9},` +
			`{"type":"output_tokens_per_minute","value":8}]}],"next_page":null}`,
		`{"data":[{"group_type":"batch","models":null,"limits":[{"type":"enqueued_batch_requests","value":500000}]}]}`,
		`{"data":[{"models":["*"],"limits":[{"type":"requests_per_minute","value":-1}]}]}`,
		`{"data":[{"models":["a"],"limits":[{"type":"requests_per_minute","value":1099511627777}]}]}`,
		`{"data":[{"models":["a"],"limits":[{"type":"requests_per_minute","value":1.5,"org_limit":null}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		found := make(limits)
		_, err := parseAnthropic(reply, found)
		checkParsed(t, reply, found, err)
	})
}

func FuzzOpenAILimits(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `{}`, `{"data":null}`, `{"data":[]}`, `{"data":[null]}`, `{"data":[{}],"has_more":true,"last_id":"p"}`,
		`{"data":[],"has_more":true}`, `{"data":[{"id":"x"}],"has_more":true}`,
		`{"object":"list","data":[{"object":"project.rate_limit","id":"rl-ada","model":"ada","max_requests_per_1_minute":600,` +
			`"max_tokens_per_1_minute":150000,"max_images_per_1_minute":10,"max_requests_per_1_day":7}],"first_id":"rl-ada","last_id":"rl-ada","has_more":false}`,
		`{"data":[{"model":"*","max_requests_per_1_minute":-1}]}`, `{"data":[{"model":"a","max_requests_per_1_minute":1099511627777}]}`,
		`{"data":[{"model":"a","max_requests_per_1_minute":1e3}]}`, `{"data":[{"model":"a","max_requests_per_1_minute":null}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		found := make(limits)
		_, err := parseOpenAI(reply, found)
		checkParsed(t, reply, found, err)
	})
}

func FuzzOpenRouterLimits(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `{}`, `{"data":null}`, `{"data":[]}`, `{"data":{}}`, `{"data":{"free_model_daily_requests":null}}`,
		`{"data":{"label":"sk-or-v1-au7...890","limit":100,"rate_limit":{"requests":-1},"free_model_daily_requests":{"limit":50,"remaining":38,"used":12}}}`,
		`{"data":{"free_model_daily_requests":{"limit":-1}}}`, `{"data":{"free_model_daily_requests":{"limit":1e3}}}`,
		`{"data":{"free_model_daily_requests":{"limit":"50"}}}`, `{"data":{"free_model_daily_requests":50}}`, `{"data":{"free_model_daily_requests":{"limit":1099511627777}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		found, err := parseOpenRouter(reply)
		if err != nil {
			if found != nil || err != errNoKey && err.Error() != "reply: data.free_model_daily_requests.limit "+errNoInteger.Error() {
				t.Errorf("%q: %v, %v", reply, found, err)
			}
			return
		}
		var object map[string]any
		if json.Unmarshal(reply, &object) != nil || object == nil {
			t.Errorf("%q was read", reply)
		}
		q := found[FreeModels]
		if len(found) > 1 || len(found) == 1 && (q.MaxRPD <= 0 || int64(q.MaxRPD) > maxFigure || q != ratelimit.ModelQuota{MaxRPM: 20, MaxRPD: q.MaxRPD, DayZone: "UTC"}) {
			t.Errorf("%q: %v", reply, found)
		}
	})
}
