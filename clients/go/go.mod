module lockstock/clients/go

go 1.25

require (
	github.com/redis/go-redis/v9 v9.22.0
	github.com/redis/rueidis v1.0.76
)
