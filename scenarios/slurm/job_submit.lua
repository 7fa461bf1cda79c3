-- Jobs wait in the partition `queue`, whatever their users ask for, until an operator moves them.
function slurm_job_submit(job, partitions, user_id)
  job.partition = "queue"
  return slurm.SUCCESS
end

-- Slurm lets only the owner of a job and operators change it.
function slurm_job_modify(changes, job, partitions, user_id)
  local is_owner = user_id == job.user_id and user_id ~= 0
  if is_owner and changes.partition ~= nil and changes.partition ~= "queue" then
    slurm.log_user("only an operator moves jobs to another partition")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
