package llmhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A provider that lowers its limit does not refuse for ever who waits with an estimate that
// was cut to the higher one.
func TestQuotaShrinksWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000}}})
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, req.Body)
			time.Sleep(time.Second)
			return response(req, 200, `{"usage":{"prompt_tokens":400,"completion_tokens":1}}`, "X-Ratelimit-Limit-Tokens: 800"), nil
		})}
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 2000) + `"}]}`
		statuses := make(chan int, 2)
		for range 2 {
			go func() {
				resp, err := post(t, tr, chatURL, body)
				if err != nil {
					t.Error(err)
					statuses <- 0
					return
				}
				readAll(t, resp)
				statuses <- resp.StatusCode
			}()
			synctest.Wait()
		}
		if a, b := <-statuses, <-statuses; a != 200 || b != 200 {
			t.Errorf("answered %d and %d", a, b)
		}
	})
}
