package bench
import ("testing";"context";"fmt";"strings";"time";"github.com/redis/go-redis/v9")
func TestZZ(t *testing.T) {
	a := startServer(t); rl := newLimiter(t, a, "zz"); c := newClient(t, a)
	ctx := context.Background()
	for range 2000 { r, _ := rl.Reserve("m", 100, 10); r.Commit(90, 5) }
	empty := redis.NewScript("return 1"); empty.Run(ctx, c, nil)
	c.ConfigResetStat(ctx)
	b := time.Now()
	for range 4000 { r, _ := rl.Reserve("m", 100, 10); r.Commit(90, 5) }
	fmt.Println("ours", time.Since(b)/8000)
	s, _ := c.Info(context.Background(), "commandstats").Result()
	for _, l := range strings.Split(s, "\n") { fmt.Println(l) }
	b = time.Now()
	for range 4000 { c.EvalSha(ctx, empty.Hash(), nil) }
	fmt.Println("bare", time.Since(b)/4000)
}
