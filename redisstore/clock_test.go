package redisstore

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// The server is a machine without a battery: its clock begins in 1970, and is set later.
func TestClockOf1970(t *testing.T) {
	whole := appendScript
	defer func() { appendScript = whole }()
	l := begun(t, clientOf(t, redistest.Start(t).Addr()), Options{}, 0)
	image, err := l.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	places := []store.Position{image.At}
	for i, seconds := range []string{"0", "9", "12", "999", "1000", "1800000000"} {
		text := "local real = redis\n" +
			"local redis = {call = function(name, ...) return name == 'TIME' and {'" + seconds + "', '34'} or real.call(name, ...) end}\n" +
			whole.text
		appendScript = &script{text, redis.NewScript(text).Hash()}
		news, err := l.Append(t.Context(), places[i], oneEntry(int64(i+1)))
		if err != nil || len(news.Entries) != 1 {
			t.Fatalf("at second %s: %+v, error %v", seconds, news, err)
		}
		places = append(places, news.Entries[0].At)
	}
	for i, at := range places {
		news, err := l.Read(t.Context(), at, 0, 0)
		var read []store.Position
		for _, e := range news.Entries {
			read = append(read, e.At)
		}
		if err != nil || !slices.Equal(read, places[i+1:]) {
			t.Errorf("behind %+v are %+v, error %v", at, read, err)
		}
	}
}
