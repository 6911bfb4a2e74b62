package accountlimits_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/accountlimits"
)

func TestOpenRouterLimits(t *testing.T) {
	free := func(perDay int) quotas {
		return quotas{"*:free": {MaxRPM: 20, MaxRPD: perDay, DayZone: "UTC"}}
	}
	for _, c := range []struct {
		free, path string
		want       quotas
		wantErr    string
	}{
		{`{"limit":50,"remaining":38,"used":12}`, "/api", free(50), ""},
		{`{"limit":1000,"remaining":0,"used":1004}`, "/api/v1/", free(1000), ""},
		{`null`, "/api", quotas{}, ""},
		{`{"used":12}`, "/api", quotas{}, ""},
		{`{"limit":null}`, "/api", quotas{}, ""},
		{`{"limit":0}`, "/api", quotas{}, ""},
		{`{"limit":-1}`, "/api", nil, "reply: data.free_model_daily_requests.limit is no integer of 0 to 1099511627776"},
		{`{"limit":50.5}`, "/api", nil, "is no integer"},
		{`{"limit":"50"}`, "/api", nil, "is no integer"},
		{`{"limit":9223372036854775808}`, "/api", nil, "is no integer"},
		{`50`, "/api", nil, "reply is not a JSON object with an object named data, as documented"},
		{`{}`, "", nil, "status 404: no such resource"},
	} {
		p := &provider{free: c.free}
		got, err := accountlimits.OpenRouter{Key: adminKey, BaseURL: serve(t, p) + c.path}.Limits(t.Context())
		if !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.free, got, c.want)
		}
		if (err == nil) != (c.wantErr == "") || err != nil && (!strings.HasPrefix(err.Error(), "read limits of OpenRouter: ") || !strings.Contains(err.Error(), c.wantErr)) {
			t.Errorf("%s: %v, want an error with %q", c.free, err, c.wantErr)
		}
		if asked := strings.Join(p.asked, " "); c.path != "" && asked != "/api/v1/key" {
			t.Errorf("asked %s", asked)
		}
	}
}

// OpenRouter is asked at its own address. What it answers beside an object is no limit, and no
// error has the key.
func TestOpenRouterReplies(t *testing.T) {
	for _, c := range []struct {
		status     int
		reply      string
		wantErr    string
		wantLimits int
	}{
		{200, `{"data":{}}`, "", 0},
		{200, `{"data":{"free_model_daily_requests":{"limit":5}}}`, "", 1},
		{200, ``, "reply is not", 0}, {200, `null`, "reply is not", 0}, {200, `{}`, "reply is not", 0}, {200, `{"data":[]}`, "reply is not", 0},
		{200, `{"data":{}} x`, "reply is not", 0},
		{200, `{"data":{"free_model_daily_requests":{"limit":"` + adminKey + `"}}}`, "is no integer", 0},
		{200, strings.Repeat(" ", 1<<20) + `{"data":{}}`, "reply is larger than 1048576 bytes", 0},
		{401, `{"error":{"message":"no ` + adminKey + `"}}`, "status 401: no ***", 0},
		{307, ``, "status 307", 0},
	} {
		var url, key string
		source := accountlimits.OpenRouter{Key: adminKey, Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			url, key = r.URL.String(), r.Header.Get("Authorization")
			moved := response(r, c.status, c.reply)
			moved.Header.Set("Location", "https://elsewhere.example/")
			return moved, nil
		})}}
		got, err := source.Limits(t.Context())
		if url != "https://openrouter.ai/api/v1/key" || key != "Bearer "+adminKey {
			t.Errorf("asked %s with %q", url, key)
		}
		if len(got) != c.wantLimits || (err == nil) != (c.wantErr == "") ||
			err != nil && (!strings.Contains(err.Error(), c.wantErr) || strings.Contains(err.Error(), adminKey[:12])) {
			t.Errorf("%d %.60s: %v, %v, want an error with %q", c.status, c.reply, got, err, c.wantErr)
		}
	}
	if _, err := (accountlimits.OpenRouter{BaseURL: "https://a?b"}).Limits(t.Context()); err == nil || !strings.Contains(err.Error(), "BaseURL") {
		t.Errorf("a bad BaseURL: %v", err)
	}
}

func TestOpenRouterEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := accountlimits.OpenRouter{Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, errors.New("gone")
		})}}.Limits(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want context.DeadlineExceeded", err)
		}
	})
}

// A limiter limits each free model as the account is limited, and no other model.
func TestSyncOfOpenRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "state.yaml"), Providers: []ratelimit.Provider{ratelimit.ProviderOpenRouter},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer rl.Close()
		source := accountlimits.OpenRouter{Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return response(r, 200, `{"data":{"free_model_daily_requests":{"limit":7,"remaining":7,"used":0}}}`), nil
		})}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- accountlimits.Sync(ctx, rl, time.Hour, source) }()
		synctest.Wait()
		allowed := 0
		for range 10 {
			if r, d := rl.Reserve("a/model:free", 1, 1); d.Allowed {
				r.Commit(1, 1)
				allowed++
			}
		}
		if s := rl.Stats("a/model:free"); allowed != 7 || s.MaxRPM != 20 || s.MaxRPD != 7 {
			t.Errorf("%d of 10 calls, with %d a minute and %d a day", allowed, s.MaxRPM, s.MaxRPD)
		}
		if _, q, ok := rl.QuotaFor("a/model"); ok {
			t.Errorf("a model that is not free has %v", q)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
