package apicall

import (
	"bytes"
	"encoding/json"
	"math/big"
	"testing"
)

// FuzzCountTokensReply checks that a reply is read as a total only when it is a
// JSON object whose totalTokens is an integer of 0 or more, and that integer.
func FuzzCountTokensReply(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `null`, `[]`, `12`, `{}`, `{"totalTokens":12}`, `{"totalTokens":-0}`, `{"totalTokens":-1}`, `{"totalTokens":1.0}`,
		`{"totalTokens":1e2}`, `{"totalTokens":"12"}`, `{"totalTokens":null}`, `{"totalTokens":9223372036854775807}`,
		`{"totalTokens":9223372036854775808}`, `{"totalTokens":1,"totalTokens":2}`, `{"TOTALTOKENS":3}`, `{"totalTokens":12}x`,
		` {"a":{"totalTokens":1},"totalTokens" : 7}`, `{"total\u0054okens":12}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		total, err := parseTotal(body, geminiTotal)
		want, ok := wantTotal(body)
		switch {
		case err != nil && total != 0:
			t.Errorf("%q: total %d beside the error %v", body, total, err)
		case err == nil && (!ok || want.Cmp(big.NewInt(int64(total))) != 0):
			t.Errorf("%q: read as %d", body, total)
		case err != nil && ok && want.IsInt64() && int64(int(want.Int64())) == want.Int64():
			t.Errorf("%q: refused with %v, want %d", body, err, want)
		}
	})
}

// wantTotal reads a reply another way: token by token, and as a big number.
func wantTotal(body []byte) (total *big.Int, ok bool) {
	if !json.Valid(body) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if start, _ := decoder.Token(); start != json.Delim('{') {
		return nil, false
	}
	for decoder.More() {
		name, _ := decoder.Token()
		var value any
		if decoder.Decode(&value) != nil {
			return nil, false
		}
		if name != "totalTokens" {
			continue
		}
		number, _ := value.(json.Number) // the last one counts
		total, ok = new(big.Int).SetString(string(number), 10)
	}
	return total, ok && total.Sign() >= 0
}
