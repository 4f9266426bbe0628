module yardstick

go 1.22
